/* Work of a fixed size, whose time it prints: "compute" without messages, "exchange" with nothing
 * else. The second argument is the number of steps. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile double sink;

static void compute(long steps)
{
    for (long step = 0; step < steps; step++)
        for (long k = 0; k < 20000000; k++)
            sink += k * 0.5;
}

static void exchange(long steps, int rank, int size)
{
    double own[32] = {rank}, other[32];

    for (long step = 0; step < steps; step++)
        MPI_Sendrecv(own, 32, MPI_DOUBLE, (rank + 1) % size, 1, other, 32, MPI_DOUBLE,
                     (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size;
    double begin;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Barrier(MPI_COMM_WORLD);
    begin = MPI_Wtime();
    if (!strcmp(argv[1], "compute"))
        compute(atol(argv[2]));
    else
        exchange(atol(argv[2]), rank, size);
    MPI_Barrier(MPI_COMM_WORLD);
    if (!rank)
        printf("worked for %.6f s\n", MPI_Wtime() - begin);
    MPI_Finalize();
    return 0;
}
