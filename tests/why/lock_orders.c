/* why: cycle ranks=0-1 victims=2-3 */
#include "why.h"

/* Two ranks lock the windows of two others in different orders. */
BODY
{
    int *base;
    MPI_Win table[2];

    for (int i = 0; i < 2; i++)
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, world, &base, &table[i]);
    if (rank < 2) {
        int first = 2 + rank, second = 3 - rank;
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first, 0, table[rank]);
        MPI_Put(&one, 1, MPI_INT, first, 0, 1, MPI_INT, table[rank]);
        MPI_Win_flush(first, table[rank]);
        MPI_Sendrecv(&one, 1, MPI_INT, 1 - rank, 1, &other, 1, MPI_INT, 1 - rank, 1, world, IGNORE);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, second, 0, table[1 - rank]);
        MPI_Put(&one, 1, MPI_INT, second, 0, 1, MPI_INT, table[1 - rank]);
        MPI_Win_unlock(second, table[1 - rank]);
        MPI_Win_unlock(first, table[rank]);
    }
    MPI_Win_free(&table[1]);
    MPI_Win_free(&table[0]);
}
