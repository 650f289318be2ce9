/* why: unmatched-receive ranks=0 victims=1-3 */
#include "why.h"

BODY
{
    if (rank == 0)
        MPI_Recv(&one, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, IGNORE);
    MPI_Barrier(world);
}
