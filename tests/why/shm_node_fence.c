/* why: collective-order|different-collectives ranks=1 victims=0,2-3 */
#include "why.h"

/* One rank leaves a fence of a shared window out, and enters the barrier behind it. */
BODY
{
    MPI_Comm node;
    MPI_Win win;
    int *own;
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared(64, sizeof(int), MPI_INFO_NULL, node, &own, &win);
    for (int step = 0; step < 5; step++) {
        MPI_Win_fence(0, win);
        own[0] = step;
        if (step == 3 && rank == 1)
            break;
        MPI_Win_fence(0, win);
    }
    MPI_Barrier(node);
    MPI_Win_free(&win);
}
