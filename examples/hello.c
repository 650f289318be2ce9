/*
 * hello: say which rank runs on which host, then add up all ranks as a check.
 *
 * Every rank prints one line; rank 0 also prints the sum 0 + 1 + ... + (size - 1), which all ranks
 * worked out together.  Needs 1 rank or more.
 */
#include <mpi.h>
#include <stdio.h>

static void greet(int rank, int size)
{
    char host[MPI_MAX_PROCESSOR_NAME];
    int length = 0;

    MPI_Get_processor_name(host, &length);
    printf("hello from rank %d of %d on %s\n", rank, size, host); /* @hello */
    fflush(stdout);
}

static int sum_of_ranks(int rank)
{
    int sum = 0;

    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); /* @reduce */
    return sum;                                                      /* @sum */
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    greet(rank, size);

    int sum = sum_of_ranks(rank);
    if (rank == 0)
        printf("the ranks add up to %d, expected %d\n", sum, size * (size - 1) / 2);

    MPI_Finalize(); /* @finalize */
    return 0;
}
