/* behind: rank 1 computes in every step, while the others wait for it. */
#include <mpi.h>

static volatile double sum;

static void smooth(long n)
{
    for (long i = 0; i < n; i++)
        sum += 0.5 * (double)i; /* @smooth */
}

int main(int argc, char **argv)
{
    double x = 1, y;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (;;) {
        if (rank == 1)
            smooth(4000000000L);
        MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* @wait */
    }
}
