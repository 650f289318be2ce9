/*
 * threads: two worker threads per rank that wait on condition variables while main exchanges.
 *
 * Usage: threads [STEPS], 0 or none for ever.  After the last step main wakes the workers, joins
 * them and ends with MPI_Finalize and exit code 0.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 2 };

struct worker {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    pthread_cond_t waits;
    int number;
    int is_waiting;
    int finish;
};

static void wait_for_work(struct worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    worker->is_waiting = 1;
    pthread_cond_signal(&worker->waits);
    while (!worker->finish)
        pthread_cond_wait(&worker->wake, &worker->mutex); /* @wait */
    pthread_mutex_unlock(&worker->mutex);
}

static void *work(void *argument)
{
    struct worker *worker = argument;

    wait_for_work(worker); /* @worker */
    return NULL;
}

static void start_workers(struct worker *workers)
{
    for (int i = 0; i < WORKERS; i++) {
        workers[i].number = i + 1;
        pthread_mutex_init(&workers[i].mutex, NULL);
        pthread_cond_init(&workers[i].wake, NULL);
        pthread_cond_init(&workers[i].waits, NULL);
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void finish_workers(struct worker *workers)
{
    for (int i = 0; i < WORKERS; i++) {
        pthread_mutex_lock(&workers[i].mutex);
        /* On a busy machine the last step may be over before the worker begins. */
        while (!workers[i].is_waiting)
            pthread_cond_wait(&workers[i].waits, &workers[i].mutex);
        workers[i].finish = 1;
        pthread_cond_signal(&workers[i].wake);
        pthread_mutex_unlock(&workers[i].mutex);
        pthread_join(workers[i].thread, NULL); /* @join */
    }
}

int main(int argc, char **argv)
{
    int rank, provided;
    long steps = argc > 1 ? atol(argv[1]) : 0; /* @main */
    struct worker workers[WORKERS] = {0};

    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    start_workers(workers);

    for (long step = 0; steps == 0 || step < steps; step++) {
        MPI_Barrier(MPI_COMM_WORLD); /* @step */
        usleep(1000);
    }

    finish_workers(workers);
    MPI_Finalize(); /* @finalize */
    return 0;
}
