// why: rank-left ranks=2 victims=0-1,3
#include <mpi.h>
#include <stdexcept>
#include <vector>
struct mpi { mpi(int *c, char ***v) { MPI_Init(c, v); } ~mpi() { MPI_Finalize(); } };
static double step(int me, int i, std::vector<double> &u) { if (me == 2 && i == 3) return u.at(100); return u[0]; }
int main(int argc, char **argv)
{
    mpi guard(&argc, &argv); int me; MPI_Comm_rank(MPI_COMM_WORLD, &me);
    std::vector<double> u(10);
    try { for (int i = 0; i < 9; i++) { double a = step(me, i, u), b; MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); } }
    catch (const std::exception &) { return 1; }
}
