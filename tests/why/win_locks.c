/* why: cycle|unmatched-rma ranks=0-1 victims=2-3 */
#include "why.h"

/* Two ranks lock two windows in different order. */
BODY
{
    int *base[2];
    MPI_Win win[2];
    for (int i = 0; i < 2; i++)
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, world, &base[i], &win[i]);
    if (rank < 2) {
        int turn[2] = {rank, 1 - rank};
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win[turn[0]]);
        MPI_Put(&one, 1, MPI_INT, 2, 0, 1, MPI_INT, win[turn[0]]);
        MPI_Win_flush(2, win[turn[0]]);
        if (rank == 0)
            MPI_Recv(&one, 1, MPI_INT, 1, 1, world, IGNORE);
        else
            MPI_Send(&one, 1, MPI_INT, 0, 1, world);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 2, 0, win[turn[1]]);
        MPI_Put(&one, 1, MPI_INT, 2, 0, 1, MPI_INT, win[turn[1]]);
        MPI_Win_flush(2, win[turn[1]]);
    }
    MPI_Barrier(world);
}
