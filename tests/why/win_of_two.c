/* why: communicator-mixup|collective-order|different-collectives ranks=3 victims=0-2 */
#include "why.h"

/* One rank fences another window than the others. */
BODY
{
    MPI_Comm twin;
    MPI_Win left, right;
    int *a, *b;
    MPI_Comm_dup(world, &twin);
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, world, &a, &left);
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, twin, &b, &right);
    MPI_Win_fence(0, left);
    MPI_Win_fence(0, right);
    MPI_Win_fence(0, rank == 3 ? right : left);
    MPI_Barrier(world);
}
