/* why: healthy */
#include "why.h"
BODY
{
    int *base, to = (rank + 1) % size;
    MPI_Win win;
    MPI_Request request;
    MPI_Win_allocate(64, sizeof(int), MPI_INFO_NULL, world, &base, &win);
    for (int step = 0;; step++) {
        MPI_Win_lock_all(0, win);
        MPI_Rput(&step, 1, MPI_INT, to, 0, 1, MPI_INT, win, &request);
        MPI_Wait(&request, IGNORE);
        MPI_Win_flush_all(win);
        MPI_Win_unlock_all(win);
        if (step % 50 == rank)
            usleep(2000);
        if (step % 20 == 0)
            MPI_Barrier(world);
    }
}
