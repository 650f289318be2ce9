/* why: missing-from-collective|unmatched-rma|waits-for-busy-rank ranks=1 victims=0,2-3 */
#include "why.h"
/* A lock by compare and swap, which rank 0 does not give back. */
static MPI_Win w;
static void take(int me) {
    int none = -1, old;
    do {
        MPI_Compare_and_swap(&me, &none, &old, MPI_INT, 0, 0, w);
        MPI_Win_flush(0, w);
    } while (old != -1);
}
BODY {
    int *base;
    MPI_Win_allocate(64, 4, MPI_INFO_NULL, world, &base, &w);
    base[0] = -1;
    MPI_Barrier(world);
    MPI_Win_lock_all(0, w);
    if (rank == 0) take(rank);
    MPI_Barrier(world);
    if (rank == 1) take(rank);
    MPI_Barrier(world);
    MPI_Win_unlock_all(w);
}
