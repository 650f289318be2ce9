/* why: rank-left ranks=3 victims=0-2 */
#include "why.h"

BODY
{
    MPI_Win win;
    MPI_Win_create(big, 1024, 1, MPI_INFO_NULL, world, &win);
    MPI_Win_fence(0, win);
    if (rank != 3)
        MPI_Win_free(&win);
}
