/* why: different-collectives|missing-from-collective ranks=0 victims=1-3 */
#include "why.h"

/* The broadcast of the settings stands in the branch of rank 0. */
BODY
{
    if (rank == 0)
        MPI_Bcast(big, BIG, MPI_INT, 0, world);
    MPI_Barrier(world);
}
