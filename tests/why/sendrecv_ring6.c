/* why: unmatched-receive ranks=4 victims=0-3,5 n=6 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me, np; double a[4] = {0}, b[4];
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me); MPI_Comm_size(MPI_COMM_WORLD, &np);
    int right = (me + 1) % np, left = (me - 1 + np) % np;
    for (int i = 0; i < np; i++) {
        if (!(i == 2 && me == 3))
            MPI_Sendrecv(a, 4, MPI_DOUBLE, right, 0, b, 4, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
