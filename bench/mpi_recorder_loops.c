/* Times of loops of calls, in ns for one iteration: with two ranks, or without an MPI (see
 * mpi_recorder_fake.c). */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

enum { N = 1000, BEST_OF = 50 };
static double x = 1, y;
static int rank, other;

static void pingpong(void)
{
    for (int part = 0; part < 2; part++)
        if (part == rank)
            MPI_Send(&x, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD);
        else
            MPI_Recv(&y, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void allreduce(void)
{
    MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void waitall(void)
{
    MPI_Request requests[2];
    MPI_Irecv(&y, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(&x, 1, MPI_DOUBLE, other, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static double best(void (*work)(void))
{
    double least = 1e99;
    for (int k = 0; k < BEST_OF; k++) {
#ifndef WITHOUT_MPI
        MPI_Barrier(MPI_COMM_WORLD);
#endif
        double begin = now_ns();
        for (int i = 0; i < N; i++)
            work();
        double taken = (now_ns() - begin) / N;
        least = taken < least ? taken : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
#ifndef WITHOUT_MPI
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#endif
    other = 1 - rank;
    double times[] = {best(pingpong), best(allreduce), best(waitall)};
    if (rank == 0)
        printf("%.9g %.9g %.9g\n", times[0], times[1], times[2]);
#ifndef WITHOUT_MPI
    MPI_Finalize();
#endif
    return 0;
}
