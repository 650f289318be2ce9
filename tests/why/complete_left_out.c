/* why: unmatched-rma ranks=0 victims=1-3 */
#include "why.h"

/* The origin of an epoch goes to the barrier before it completes. */
BODY
{
    int *base, value = 3;
    MPI_Win win;
    MPI_Group all, part;
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, world, &base, &win);
    MPI_Comm_group(world, &all);
    if (rank == 0) {
        int from = 1;
        MPI_Group_incl(all, 1, &from, &part);
        MPI_Win_post(part, 0, win);
        MPI_Win_wait(win);
    }
    if (rank == 1) {
        int to = 0;
        MPI_Group_incl(all, 1, &to, &part);
        MPI_Win_start(part, 0, win);
        MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win);
    }
    MPI_Barrier(world);
}
