/* why: unmatched-receive|missing-from-collective ranks=1 victims=0 n=2 */
#define THREADS MPI_THREAD_MULTIPLE
#include "why.h"
#include <omp.h>
/* Two threads of rank 1 receive, and rank 0 sends for one of them. */
BODY {
#pragma omp parallel num_threads(2)
    {
        int me = omp_get_thread_num(), v = 0;
        if (rank == 0 && me == 0) MPI_Send(&v, 1, MPI_INT, 1, 10, world);
        if (rank == 1) MPI_Recv(&v, 1, MPI_INT, 0, 10 + me, world, IGNORE);
    }
    MPI_Barrier(world);
}
