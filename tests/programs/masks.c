/*
 * masks: rank 0 has its way with the signal that interrupts a rank; all call hit() for ever.
 *
 * Usage: masks block|handle|both [NUMBER].  To block it in all threads, it is blocked before MPI starts
 * any. NUMBER is that of another signal.
 */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

volatile int handled;
int rank;

static void handle(int number)
{
    (void)number;
    handled++;
}

void hit(void);

void hit(void)
{
    struct timespec left = {0, 1000000};

    nanosleep(&left, NULL);
}

static int is_first(void)
{
    const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK"};

    for (int i = 0; i < 2; i++)
        if (getenv(names[i]) != NULL)
            return atoi(getenv(names[i])) == 0;
    return 0;
}

int main(int argc, char **argv)
{
    int number = argc > 2 ? atoi(argv[2]) : SIGURG;
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, number);
    if (strcmp(argv[1], "block") != 0)
        signal(number, handle);
    if (strcmp(argv[1], "handle") != 0 && is_first())
        sigprocmask(SIG_BLOCK, &set, NULL);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (;;)
        hit();
}
