/* why: waits-for-busy-rank ranks=3 victims=0-2,4-5 n=6 */
#include <mpi.h>
#include <math.h>
static double solve(double x, double eps)
{
    double y = x, d = 1;
    while (d > eps) { double n = 0.5 * (y + x / y); d = fabs(n - y) + eps * 2; y = n; }
    return y;
}
int main(int argc, char **argv)
{
    int me, np; double v;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me); MPI_Comm_size(MPI_COMM_WORLD, &np);
    for (int item = 1; item < 100; item++) {
        if (me == 0) v = item; else MPI_Recv(&v, 1, MPI_DOUBLE, me - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (me == 3 && item == 7) v = solve(v, 1e-12);
        v = sqrt(v);
        if (me < np - 1) MPI_Ssend(&v, 1, MPI_DOUBLE, me + 1, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
