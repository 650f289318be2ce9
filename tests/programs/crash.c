/*
 * crash: one rank dies of SIGSEGV after a barrier, the others wait for it in the next barrier.
 *
 * Usage: crash [RANK], 0 if not given; with a rank that does not exist nobody dies and all exit 0.
 */
#include <mpi.h>
#include <stdlib.h>

static void write_through(int *target, int value)
{
    *target = value; /* @crash */
}

int main(int argc, char **argv)
{
    int rank;
    int victim = argc > 1 ? atoi(argv[1]) : 0; /* @main */

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    MPI_Barrier(MPI_COMM_WORLD); /* @together */
    if (rank == victim)
        write_through(NULL, rank); /* @victim */
    MPI_Barrier(MPI_COMM_WORLD);   /* @barrier */

    MPI_Finalize();
    return 0;
}
