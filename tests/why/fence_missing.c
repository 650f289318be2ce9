/* why: collective-order|different-collectives ranks=2 victims=0-1,3 */
#include "why.h"

BODY
{
    MPI_Win window;
    MPI_Win_create(&one, sizeof one, sizeof one, MPI_INFO_NULL, world, &window);
    MPI_Barrier(world);
    if (rank != 2)
        MPI_Win_fence(0, window);
    MPI_Barrier(world);
}
