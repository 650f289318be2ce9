/*
 * calls: every rank waits in another kind of MPI call, for ever.
 *
 * Rank 0 in a receive that goes through the program's own wrapper, rank 1 in a function that MPI
 * calls back, rank 2 in MPI_Finalize, rank 3 in a one-sided operation.  Two threads of each rank,
 * one of rank 3, wait on a condition variable.  Needs 4 ranks.
 */
#include <mpi.h>
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm communicator,
             MPI_Status *status)
{
    return PMPI_Recv(buffer, count, type, source, tag, communicator, status); /* @wrapped */
}

static void mpi_exchange(void)
{
    int value;

    MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* @receive */
}

static void hold(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)in;
    (void)inout;
    (void)length;
    (void)type;
    for (;;)
        pause(); /* @hold */
}

static void reduce(void)
{
    MPI_Op op;
    int one = 1, sum = 0;

    MPI_Op_create(hold, 1, &op);
    MPI_Reduce_local(&one, &sum, 1, MPI_INT, op); /* @reduce */
}

static void *work(void *argument)
{
    pthread_mutex_lock(&mutex);
    for (;;)
        pthread_cond_wait(&wake, &mutex); /* @work */
    return argument;
}

int main(int argc, char **argv)
{
    int rank, provided, value = 0;
    MPI_Win window;
    pthread_t thread;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_create(&value, sizeof value, sizeof value, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i < (rank == 3 ? 1 : 2); i++)
        if (pthread_create(&thread, NULL, work, &i) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);

    if (rank == 0)
        mpi_exchange();
    else if (rank == 1)
        reduce();
    else if (rank == 3)
        MPI_Win_fence(0, window); /* @fence */
    MPI_Finalize();               /* @finalize */
    return 0;
}
