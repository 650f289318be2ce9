/* why: missing-from-collective ranks=2 victims=0-1,3 */
#include "why.h"
#include <omp.h>

static void add(int *sum, int what)
{
#pragma omp critical(totals)
    *sum += what;
}

BODY
{
    int sum = 0;
    if (rank == 2) {
#pragma omp parallel for num_threads(2)
        for (int i = 0; i < 8; i++)
#pragma omp critical(totals)
            add(&sum, i);
    }
    MPI_Allreduce(&sum, &other, 1, MPI_INT, MPI_SUM, world);
}
