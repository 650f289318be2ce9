/* why: healthy */
#define THREADS MPI_THREAD_MULTIPLE
#include "why.h"
static void *serve(void *unused)
{
    int v; MPI_Status st;
    for (;;) {
        MPI_Recv(&v, 1, MPI_INT, MPI_ANY_SOURCE, 1, world, &st);
        MPI_Send(&v, 1, MPI_INT, st.MPI_SOURCE, 2, world);
    }
}
BODY
{
    pthread_t t;
    pthread_create(&t, NULL, serve, NULL);
    for (;;) {
        work(rank == 2 ? 2000000000 : 1000);
        MPI_Barrier(world);
    }
}
