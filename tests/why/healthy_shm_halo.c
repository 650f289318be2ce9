/* why: healthy */
#include "why.h"
BODY
{
    MPI_Comm node;
    MPI_Win win;
    double *own, *left;
    MPI_Aint bytes;
    int unit;
    MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Win_allocate_shared(1024, sizeof(double), MPI_INFO_NULL, node, &own, &win);
    MPI_Win_shared_query(win, (rank + size - 1) % size, &bytes, &unit, &left);
    for (long step = 0;; step++) {
        MPI_Win_fence(0, win);
        own[1] = left[2] + 1;
        work(1000 + 200 * rank);
        MPI_Win_fence(0, win);
        own[2] = own[1];
        if (step % 100 == 0)
            MPI_Barrier(node);
    }
}
