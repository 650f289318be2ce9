/*
 * bodies: call work() five times with the number of the round, then print the sum as "rank R sum S".
 * Rank 1 skips every second round.
 */
#include <mpi.h>
#include <stdio.h>

static int work(int round, int rank)
{
    int sum = round * 10 + rank;

    return sum; /* @work */
}

int main(int argc, char **argv)
{
    int rank, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 5; round++) /* @loop */
        if (rank != 1 || round % 2 == 0)
            sum += work(round, rank);
    printf("rank %d sum %d args %d\n", rank, sum, argc); /* @end */
    MPI_Finalize();
    return 0;
}
