/* why: waits-for-busy-rank ranks=1 victims=0,2-3 */
#include "why.h"

/* Rank 1 never leaves a lock of its own. The others are a step apart, and their exchanges fit. */
static volatile int taken;

BODY
{
    double mine = rank, got;
    for (int step = 0; step < 10; step++) {
        MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 0, &got, 1, MPI_DOUBLE,
                     (rank + size - 1) % size, 0, world, MPI_STATUS_IGNORE);
        mine = (mine + got) / 2;
        if (rank != 1 || step < 4)
            continue;
        while (taken)
            usleep(1000);
        taken = 1;
    }
}
