/* A job that is launched again: N steps, and with a second argument rank 1 ends by SIGABRT. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int counter = 0;

static void work(int rank, int i)
{
    counter += rank + i; /* @work */
}

int main(int argc, char **argv)
{
    int rank, i, n = argc > 1 ? atoi(argv[1]) : 3; /* @begin */

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (i = 0; i < n; i++)
        work(rank, i);
    if (argc > 2 && rank == 1)
        abort();
    MPI_Barrier(MPI_COMM_WORLD); /* @end */
    MPI_Finalize();
    return 0;
}
