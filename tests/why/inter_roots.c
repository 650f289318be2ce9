/* why: different-roots|missing-from-collective|collective-order|unmatched-receive ranks=2-3 victims=0-1 */
#include "why.h"
BODY {
    MPI_Comm half, inter; int side = rank / 2, v = 3;
    MPI_Comm_split(world, side, rank, &half);
    MPI_Intercomm_create(half, 0, world, side ? 0 : 2, 5, &inter);
    if (side == 0) MPI_Bcast(&v, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    else MPI_Bcast(&v, 1, MPI_INT, 1, inter);
    MPI_Barrier(world);
}
