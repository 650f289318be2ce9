/* why: healthy */
#include "why.h"
BODY
{
    long *base, next = 0, add = 1;
    MPI_Win win;
    MPI_Win_allocate(rank == 0 ? 64 : 0, sizeof(long), MPI_INFO_NULL, world, &base, &win);
    for (;;) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
        MPI_Fetch_and_op(&add, &next, MPI_LONG, 0, 0, MPI_SUM, win);
        MPI_Win_unlock(0, win);
        work(500 * (next % 7));
    }
}
