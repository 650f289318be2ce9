/* why: missing-from-collective|waits-for-busy-rank ranks=2 victims=0-1,3 */
#include "why.h"

/* One rank spins on its neighbour's memory in a shared window, which nobody writes. */
BODY
{
    MPI_Win win;
    volatile int *own, *theirs;
    MPI_Aint bytes;
    int unit;
    MPI_Win_allocate_shared(64, sizeof(int), MPI_INFO_NULL, world, (void *)&own, &win);
    own[0] = 0;
    MPI_Win_fence(0, win);
    MPI_Win_shared_query(win, (rank + 1) % size, &bytes, &unit, (void *)&theirs);
    if (rank != 2)
        own[0] = 0;
    if (rank == 2)
        while (theirs[0] == 0)
            ;
    MPI_Win_fence(0, win);
    MPI_Win_free(&win);
}
