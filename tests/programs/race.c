/* Each rank has a data race: two threads change one variable, for ThreadSanitizer. */
#include <mpi.h>
#include <pthread.h>

static int shared;

static void *add(void *unused)
{
    (void)unused;
    shared += 1; /* @add */
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    MPI_Init(&argc, &argv);
    pthread_create(&thread, NULL, add, NULL);
    shared += 2; /* @race */
    pthread_join(thread, NULL);
    MPI_Finalize();
    return 0;
}
