/*
 * nompi: a program under an MPI launcher that never calls MPI.
 *
 * Usage: nompi [FILE [STEPS]].  Prints "nompi rank R of N (VARIABLE)" from the launcher's
 * environment, then loops in steps of 10 ms until FILE exists or STEPS are over; "-" is no file.
 * Without STEPS it ends after 60000 (ten minutes): no launcher ends it when a test forgets it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const NAMES[][2] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_NTASKS"},
    {"PMIX_RANK", "PMIX_SIZE"},
    {"FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
};

static int rank_from_environment(int *size, const char **variable)
{
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        const char *rank = getenv(NAMES[i][0]);
        const char *ranks = getenv(NAMES[i][1]);
        if (rank != NULL) {
            *variable = NAMES[i][0];
            *size = ranks != NULL ? atoi(ranks) : -1;
            return atoi(rank);
        }
    }
    *variable = "none";
    *size = -1;
    return -1;
}

static void pause_step(long step)
{
    struct timespec left = {0, 10000000};

    (void)step; /* an argument for the debugger to show */
    while (nanosleep(&left, &left) != 0) /* @sleep */
        ;
}

int main(int argc, char **argv)
{
    const char *file = argc > 1 ? argv[1] : "-"; /* @main */
    long steps = argc > 2 ? atol(argv[2]) : 60000;
    const char *variable;
    int size;
    int rank = rank_from_environment(&size, &variable);

    printf("nompi rank %d of %d (%s)\n", rank, size, variable); /* @print */
    fflush(stdout);

    for (long step = 0; step < steps; step++) {
        if (strcmp(file, "-") != 0 && access(file, F_OK) == 0)
            break; /* @found */
        pause_step(step); /* @step */
    }
    return 0; /* @end */
}
