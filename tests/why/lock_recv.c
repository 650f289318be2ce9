/* why: cycle|missing-from-collective ranks=0-1 victims=2-3 or missing-from-collective ranks=1 victims=0,2-3 or unmatched-receive ranks=1 victims=0,2-3 */
#define THREADS MPI_THREAD_MULTIPLE
#include "why.h"
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int has_it;
static void *take(void *unused)
{
    int v;
    pthread_mutex_lock(&lock);
    has_it = 1;
    MPI_Recv(&v, 1, MPI_INT, 0, 5, world, IGNORE);
    pthread_mutex_unlock(&lock);
    return NULL;
}
BODY
{
    pthread_t t;
    if (rank == 1) {
        pthread_create(&t, NULL, take, NULL);
        while (!has_it) usleep(1000);
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    MPI_Barrier(world);
    if (rank == 0) MPI_Send(&rank, 1, MPI_INT, 1, 5, world);
    if (rank == 1) pthread_join(t, NULL);
}
