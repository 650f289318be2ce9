/* Shared by the programs of this folder: a program is a comment with the verdict, and a body.
 *
 * The comment is 'why: KIND[|KIND...] ranks=SET victims=SET', or 'why: healthy'. The body runs on
 * each of four ranks. Before it, each rank makes a file in the folder that WHY_READY names.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BIG = 1 << 20 };
int rank, size, one, other;
char *big;
#define world MPI_COMM_WORLD

static void ready(void)
{
    char name[512];
    const char *folder = getenv("WHY_READY");
    if (folder != NULL) {
        snprintf(name, sizeof name, "%s/%d", folder, rank);
        FILE *file = fopen(name, "w");
        if (file != NULL)
            fclose(file);
    }
}

static void begin(int *argc, char ***argv, int wanted)
{
    int given;
    MPI_Init_thread(argc, argv, wanted, &given);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    big = (char *)calloc(BIG, sizeof(int));
    MPI_Barrier(world);
    ready();
}

#ifndef THREADS
#define THREADS MPI_THREAD_SINGLE
#endif

#define BODY                                                                                      \
    static void body(void);                                                                       \
    int main(int argc, char **argv)                                                               \
    {                                                                                             \
        begin(&argc, &argv, THREADS);                                                             \
        body();                                                                                   \
        MPI_Finalize();                                                                           \
        return 0;                                                                                 \
    }                                                                                             \
    static void body(void)

#define IGNORE MPI_STATUS_IGNORE

static inline double work(long steps)
{
    static volatile double sum;
    for (long i = 0; i < steps; i++)
        sum += 1.0 / (double)(i + 1);
    return sum;
}
