/* why: collective-order ranks=0-3 victims= */
#include "why.h"

BODY
{
    MPI_Comm half;
    MPI_Comm_split(world, rank % 2, rank, &half);
    if (rank < 2) {
        MPI_Barrier(half);
        MPI_Barrier(world);
    } else {
        MPI_Barrier(world);
        MPI_Barrier(half);
    }
}
