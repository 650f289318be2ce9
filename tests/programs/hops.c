/*
 * hops: every rank calls hop_on() six times; no rank waits for another one before the end.
 */
#include <mpi.h>

static int me;

static int hop_on(int hop)
{
    int steps = hop + me; /* @place */

    return steps;
}

int main(int argc, char **argv)
{
    int sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    for (int hop = 1; hop <= 6; hop++)
        sum += hop_on(hop);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return sum < 0;
}
