/* why: self-deadlock ranks=0 victims=1-3 */
#include "why.h"

BODY
{
    if (rank == 0)
        MPI_Recv(&one, 1, MPI_INT, 0, 2, world, IGNORE);
    MPI_Barrier(world);
}
