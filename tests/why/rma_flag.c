/* why: unmatched-rma|missing-from-collective|waits-for-busy-rank ranks=0 victims=1-3 */
#include "why.h"
#include <string.h>
/* Rank 0 waits for a flag in the window of rank 1, which nobody sets. */
static MPI_Win win;
static int *base;
static int remote_flag(int target) {
    int v = 0, zero = 0;
    MPI_Fetch_and_op(&zero, &v, MPI_INT, target, 0, MPI_NO_OP, win);
    MPI_Win_flush(target, win);
    return v;
}
BODY {
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, world, &base, &win);
    memset(base, 0, 64);
    MPI_Barrier(world);
    MPI_Win_lock_all(0, win);
    while (rank == 0 && remote_flag(1) == 0)
        ;
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
}
