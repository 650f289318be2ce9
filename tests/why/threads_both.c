/* why: self-deadlock|unmatched-receive ranks=0 victims=1-3 */
#define THREADS MPI_THREAD_MULTIPLE
#include "why.h"

static void *receive(void *nothing)
{
    MPI_Recv(&other, 1, MPI_INT, 0, 2, world, IGNORE);
    return nothing;
}

BODY
{
    if (rank == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, receive, NULL);
        MPI_Recv(&one, 1, MPI_INT, 0, 3, world, IGNORE);
        pthread_join(thread, NULL);
    }
    MPI_Barrier(world);
}
