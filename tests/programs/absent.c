/*
 * absent: all ranks come to meet(), but the last one does something else first.
 *
 * Usage: absent busy|sleep|barrier|finalize|poll|ssend|any|lock|semaphore|exit|chain
 * Ranks that compute or sleep do so until a debugger sets waits to 0.  In a chain each rank
 * waits for the one before it.
 */
#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile int waits = 1;
static volatile double sink;

static void meet(void)
{
    sink += 1.0; /* @meet */
}

static int polled(void)
{
    int value, flag = 0;
    MPI_Request request;

    MPI_Irecv(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &request);
    while (!flag)
        MPI_Test(&request, &flag, MPI_STATUS_IGNORE); /* @poll */
    return value;
}

static void stay_away(const char *mode)
{
    int value = 0;
    sem_t semaphore;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

    if (strcmp(mode, "busy") == 0) {
        while (waits)
            sink += 1.0; /* @busy */
    } else if (strcmp(mode, "sleep") == 0) {
        while (waits)
            sleep(100); /* @sleep */
    } else if (strcmp(mode, "barrier") == 0) {
        MPI_Barrier(MPI_COMM_WORLD); /* @barrier */
    } else if (strcmp(mode, "finalize") == 0) {
        MPI_Finalize(); /* @finalize */
    } else if (strcmp(mode, "poll") == 0) {
        polled();
    } else if (strcmp(mode, "ssend") == 0) {
        MPI_Ssend(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD); /* @ssend */
    } else if (strcmp(mode, "any") == 0) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* @any */
    } else if (strcmp(mode, "lock") == 0) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_lock(&mutex); /* @lock */
    } else if (strcmp(mode, "semaphore") == 0) {
        sem_init(&semaphore, 0, 0);
        sem_wait(&semaphore); /* @semaphore */
    } else {
        exit(0);
    }
}

static void pass_on(int rank, int size)
{
    int value = 0;

    if (rank > 0)
        MPI_Recv(&value, 1, MPI_INT, rank - 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* @link */
    if (rank < size - 1)
        MPI_Send(&value, 1, MPI_INT, rank + 1, 6, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && strcmp(argv[1], "chain") == 0)
        pass_on(rank, size); /* @chain */
    else if (rank == size - 1)
        stay_away(argc > 1 ? argv[1] : "exit");
    meet();
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
