/* why: cycle ranks=0-1 victims=2-3 */
#define THREADS MPI_THREAD_MULTIPLE
#include "why.h"

/* Rank 0 holds a lock while it waits for an answer to what its thread sends under that lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *ask(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    MPI_Send(&rank, 1, MPI_INT, 1, 1, world);
    pthread_mutex_unlock(&lock);
    return NULL;
}

BODY
{
    int value = 0;
    pthread_t thread;

    if (rank == 0) {
        pthread_mutex_lock(&lock);
        pthread_create(&thread, NULL, ask, NULL);
        MPI_Recv(&value, 1, MPI_INT, 1, 2, world, IGNORE);
        pthread_mutex_unlock(&lock);
        pthread_join(thread, NULL);
    } else if (rank == 1) {
        MPI_Recv(&value, 1, MPI_INT, 0, 1, world, IGNORE);
        MPI_Send(&value, 1, MPI_INT, 0, 2, world);
    }
    MPI_Barrier(world);
}
