/* why: unmatched-receive ranks=1 victims=0 or unmatched-receive ranks=1 victims=0,2-3 n=6 */
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int me, v; MPI_Comm c;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_split(MPI_COMM_WORLD, me / 2, 0, &c);
    if (me == 1) MPI_Recv(&v, 1, MPI_INT, 0, 5, c, MPI_STATUS_IGNORE);
    if (me == 4) sleep(100000);
    MPI_Barrier(c);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
