/* why: unmatched-rma ranks=0 victims=1-3 or unmatched-rma ranks=1,3 victims=0,2 */
#include "why.h"
BODY {
    int *base; MPI_Win win; MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, world, &base, &win); *base = 0; MPI_Barrier(world);
    if (rank == 0) { MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win); MPI_Put(&one, 1, MPI_INT, 2, 0, 1, MPI_INT, win); MPI_Win_flush(2, win);
        MPI_Barrier(world);       /* should unlock first */
        MPI_Win_unlock(2, win); }
    else { usleep(300000); MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win); MPI_Put(&one, 1, MPI_INT, 2, 0, 1, MPI_INT, win); MPI_Win_unlock(2, win); MPI_Barrier(world); }
    MPI_Win_free(&win);
}
