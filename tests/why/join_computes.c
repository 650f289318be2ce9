/* why: healthy */
#define THREADS MPI_THREAD_MULTIPLE
#include "why.h"

static void *compute(void *steps)
{
    work(*(long *)steps);
    return NULL;
}

/* The first thread of rank 0 waits for another one, which computes for hours. */
BODY
{
    if (rank == 0) {
        long steps = 1L << 44;
        pthread_t thread;
        pthread_create(&thread, NULL, compute, &steps);
        pthread_join(thread, NULL);
    }
    MPI_Barrier(world);
}
