/* why: unmatched-receive|missing-from-collective ranks=0 victims=1-3 */
#include <mpi.h>
#include <pthread.h>
static void *listener(void *a) { int x; MPI_Recv(&x, 1, MPI_INT, MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE); return a; }
int main(int argc, char **argv)
{
    int me, got; pthread_t t;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &got); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 0) { pthread_create(&t, 0, listener, 0); pthread_join(t, 0); }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
