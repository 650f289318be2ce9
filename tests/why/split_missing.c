/* why: different-collectives ranks=0 victims=1-3 */
#include "why.h"

BODY
{
    MPI_Comm half;
    if (rank != 0)
        MPI_Comm_split(world, rank % 2, rank, &half);
    MPI_Barrier(world);
}
