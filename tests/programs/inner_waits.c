/* Rank 1 does not come to a barrier: its first thread waits for the end of another thread (join), for
   a lock that it holds itself (own), or for a lock of a thread that waits for it (circle). */
#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void *helper(void *kind)
{
    pthread_mutex_lock(&first);
    pthread_barrier_wait(&both);
    if (!strcmp(kind, "circle"))
        pthread_mutex_lock(&second); /* @circle */
    for (;;)
        pause(); /* @helper */
    return NULL;
}

static void wait_inside(const char *kind)
{
    pthread_t thread;
    if (!strcmp(kind, "own")) {
        pthread_mutex_lock(&first);
        pthread_mutex_lock(&first); /* @own */
    }
    if (!strcmp(kind, "circle"))
        pthread_mutex_lock(&second);
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&thread, NULL, helper, (void *)kind);
    pthread_barrier_wait(&both);
    if (strcmp(kind, "join"))
        pthread_mutex_lock(&first); /* @lock */
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1)
        wait_inside(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD); /* @barrier */
    MPI_Finalize();
    return 0;
}
