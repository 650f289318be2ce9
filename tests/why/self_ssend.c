/* why: self-deadlock ranks=2 victims=0-1,3 */
#include "why.h"

BODY
{
    if (rank == 2)
        MPI_Ssend(&one, 1, MPI_INT, rank, 2, world);
    MPI_Barrier(world);
}
