/* why: unmatched-receive ranks=2 victims=0-1,3 */
#define THREADS MPI_THREAD_MULTIPLE
#include "why.h"
#include <omp.h>
BODY
{
    omp_set_num_threads(2);
#pragma omp parallel
    {
        int v = rank, me = omp_get_thread_num();
        int to = rank ^ 1;
        if (me == 1) {
            if (rank != 3) MPI_Send(&v, 1, MPI_INT, to, 8, world);
            MPI_Recv(&v, 1, MPI_INT, to, 8, world, IGNORE);
        }
#pragma omp barrier
        work(100);
    }
    MPI_Barrier(world);
}
