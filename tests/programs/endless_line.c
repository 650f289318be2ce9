/*
 * endless_line: each rank computes in one line, beside a thread that computes in another one, until
 * SIGUSR1. A debugger steps such a line instruction by instruction.
 *
 * Usage: endless_line. At the end the exit status is 0.
 */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>

static volatile sig_atomic_t is_over;
volatile unsigned long rounds, rounds_beside;

static void finish(int number)
{
    (void)number;
    is_over = 1;
}

static void *compute_beside(void *nothing)
{
    while (!is_over) rounds_beside++;
    return nothing;
}

int main(int argc, char **argv)
{
    pthread_t beside;

    signal(SIGUSR1, finish);
    MPI_Init(&argc, &argv);
    pthread_create(&beside, NULL, compute_beside, NULL);
    while (!is_over) rounds++; /* @line */
    pthread_join(beside, NULL);
    MPI_Finalize();
    return 0;
}
