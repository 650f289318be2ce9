/* why: unmatched-rma|cycle ranks=0 victims=1-3 or missing-from-collective ranks=0 victims=1-3 */
#include "why.h"
BODY {
    MPI_Win win; MPI_Group all, g; int o = 3, z = 0;
    MPI_Win_create(big, 1024, 4, MPI_INFO_NULL, world, &win); MPI_Comm_group(world, &all);
    if (rank == 0) { int flag = 0; MPI_Group_incl(all, 1, &o, &g); MPI_Win_post(g, 0, win); while (!flag) MPI_Win_test(win, &flag); }
    MPI_Barrier(world);       /* rank 3 never starts */
    MPI_Win_free(&win);
}
