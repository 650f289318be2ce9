/* why: healthy */
#include "why.h"
BODY {
    MPI_Win win; long *base, one_ = 1, got;
    MPI_Win_allocate(64, sizeof(long), MPI_INFO_NULL, world, &base, &win);
    *base = 0; MPI_Barrier(world);
    for (;;) {
        MPI_Win_lock_all(0, win);
        for (int i = 0; i < 50; i++) {
            MPI_Fetch_and_op(&one_, &got, MPI_LONG, 0, 0, MPI_SUM, win);
            MPI_Win_flush(0, win);
            work(got % 1000);
        }
        MPI_Win_unlock_all(win);
        MPI_Barrier(world);
    }
}
