/* why: missing-from-collective ranks=2 victims=0-1,3 */
#include "why.h"
#include <omp.h>

static void refresh(int input)
{
    char byte;
    if (read(input, &byte, 1) < 0)
        perror("refresh");
}

/* A thread of rank 2's team reads from a pipe into which nobody writes; the first one waits. */
BODY
{
    int ends[2];
    if (pipe(ends))
        MPI_Abort(world, 2);
    omp_set_num_threads(3);
#pragma omp parallel
    {
        if (rank == 2 && omp_get_thread_num() == 1)
            refresh(ends[0]);
#pragma omp barrier
#pragma omp master
        MPI_Barrier(world);
    }
}
