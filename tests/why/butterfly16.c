/* why: unmatched-receive ranks=6 victims=0-5,7-15 n=16 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me, np; double s = 1, t;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me); MPI_Comm_size(MPI_COMM_WORLD, &np);
    for (int mask = 1; mask < np; mask <<= 1) {
        int p = me ^ (me == 6 && mask == 4 ? 2 : mask);
        MPI_Sendrecv(&s, 1, MPI_DOUBLE, p, 0, &t, 1, MPI_DOUBLE, p, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        s += t;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
