/*
 * meet: all ranks go one way through ten steps, but one of them, in one step.
 *
 * Usage: meet [ODD [WHEN [MODE]]].  In step WHEN rank ODD (by default the last one, in step 3)
 *   part   computes something else than the others (the default)
 *   recv   receives from rank 0, which sends behind meet() only
 *   spin   computes until the program is reported to stop: spins = 0
 *   exit   ends with status 3
 *   crash  writes to address 0
 */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int spins = 1;
static int rank, size, odd, when, parts;
static const char *mode;

static double usual(double value)
{
    return value + 1.0; /* @usual */
}

static double unusual(double value)
{
    value += 0.5;       /* @unusual */
    return value + 1.0; /* @unusual_end */
}

static void act(int step)
{
    int token = step;

    if (strcmp(mode, "recv") == 0)
        MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* @recv */
    else if (strcmp(mode, "spin") == 0)
        while (spins)
            usleep(1000); /* @spin */
    else if (strcmp(mode, "exit") == 0)
        exit(3); /* @exit */
    else if (strcmp(mode, "crash") == 0)
        *(volatile int *)0 = token; /* @crash */
}

static double meet(double value, int step)
{
    value += step; /* @meet */
    return value;  /* @met */
}

static double solve(double value, int step)
{
    /* Nothing is called here: a debugger steps into a function of the library that has symbols. */
    if (rank == odd && step == when && parts) /* @test */
        value = unusual(value);               /* @odd */
    else
        value = usual(value); /* @even */
    return value;             /* @solved */
}

int main(int argc, char **argv)
{
    double value = 0.0;

    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    odd = argc > 1 ? atoi(argv[1]) : size - 1;
    when = argc > 2 ? atoi(argv[2]) : 3;
    mode = argc > 3 ? argv[3] : "part";
    parts = strcmp(mode, "part") == 0;

    for (int step = 0; step < 10; step++) { /* @step */
        value = solve(value, step);         /* @solve */
        if (rank == odd && step == when)
            act(step);              /* @act */
        value = meet(value, step); /* @call */
        if (rank == 0 && step == when && strcmp(mode, "recv") == 0)
            MPI_Send(&step, 1, MPI_INT, odd, 1, MPI_COMM_WORLD); /* @send */
    }
    MPI_Barrier(MPI_COMM_WORLD); /* @barrier */
    MPI_Finalize();              /* @finalize */
    return 0;
}
