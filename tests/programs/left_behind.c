/*
 * left_behind: rank 1 leaves a process behind, as a daemon, or leaves without MPI_Finalize.
 *
 * Usage: left_behind daemon FILE, left_behind unfinished, or left_behind late
 *
 * The daemon has the output of its rank, and ends when FILE exists, or after ten minutes. With
 * "late", each rank calls MPI_Finalize in a function of atexit.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wait_for(const char *file)
{
    for (int step = 0; step < 60000 && access(file, F_OK); step++)
        usleep(10000);
}

static void finish(void)
{
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 2 && rank == 1 && !fork()) {
        setsid();
        wait_for(argv[2]);
        _exit(0);
    }
    if (argc > 1 && !strcmp(argv[1], "unfinished")) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1)
            _exit(0); /* @leave */
        for (;;)
            pause();
    }
    if (argc > 1 && !strcmp(argv[1], "late")) {
        atexit(finish);
        return 0;
    }
    MPI_Finalize();
    return 0;
}
