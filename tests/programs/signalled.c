/* Rank 1 sends SIGTERM to the process of rank 0, whose first thread blocks the signal.
 *
 * The kernel gives it to the second thread, as it does with a thread of MPI's. With an argument the
 * second thread sends the signal to itself. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static volatile int waits = 1;

static void *second(void *sends)
{
    if (sends != NULL)
        raise(SIGTERM); /* @raise */
    while (waits)
        usleep(1000); /* @second */
    return NULL;
}

static void block_in_this_thread(int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
    int rank, pid = getpid();
    pthread_t thread;

    (void)argv;
    /* Threads of MPI's inherit the mask, so that the second thread alone can get the signal. */
    block_in_this_thread(SIGTERM);
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        sigset_t none;
        sigemptyset(&none);
        pthread_sigmask(SIG_SETMASK, &none, NULL);
        pthread_create(&thread, NULL, second, argc > 1 ? (void *)&waits : NULL);
        block_in_this_thread(SIGTERM);
    }
    MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 1 && argc < 2)
        kill(pid, SIGTERM);
    MPI_Barrier(MPI_COMM_WORLD);
    while (rank == 0 && waits)
        usleep(1000); /* @first */
    MPI_Finalize();
    return 0;
}
