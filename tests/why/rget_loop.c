/* why: missing-from-collective|unmatched-rma|waits-for-busy-rank ranks=0 victims=1-3 */
#include "why.h"
/* All wait for rank 0, which reads a flag in the window of rank 3, that nobody sets. */
BODY {
    MPI_Win w; int *base, got = 0; MPI_Request q;
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, world, &base, &w);
    base[0] = 0;
    MPI_Barrier(world);
    MPI_Win_lock_all(0, w);
    if (rank == 0)
        while (got == 0) { MPI_Rget(&got, 1, MPI_INT, 3, 0, 1, MPI_INT, w, &q); MPI_Wait(&q, IGNORE); }
    MPI_Barrier(world);
    MPI_Win_unlock_all(w);
}
