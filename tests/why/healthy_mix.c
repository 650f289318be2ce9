/* why: healthy */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me; double a[3] = {1}, b[3];
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (;;) { MPI_Allreduce(a, b, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); a[0] = b[0] / 4; MPI_Bcast(a, 1, MPI_DOUBLE, (int)(a[1]) % 4, MPI_COMM_WORLD); a[1] += 1; if (a[1] > 1e6) a[1] = 0; }
}
