/* why: unmatched-rma ranks=2 victims=0-1,3 */
#include "why.h"
BODY {
    MPI_Win win; int *base, one_ = 7; MPI_Group all, g; int r1[] = {1}, r0[] = {0};
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, world, &base, &win);
    MPI_Comm_group(world, &all);
    if (rank == 0) { MPI_Group_incl(all, 1, r1, &g); MPI_Win_post(g, 0, win); MPI_Win_wait(win); }
    if (rank == 1 || rank == 2) {
        MPI_Group_incl(all, 1, r0, &g);
        MPI_Win_start(g, 0, win);
        MPI_Put(&one_, 1, MPI_INT, 0, rank, 1, MPI_INT, win);
        MPI_Win_complete(win);
    }
    MPI_Barrier(world);
}
