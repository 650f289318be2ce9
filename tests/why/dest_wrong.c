/* why: unmatched-receive ranks=0-1 victims=2-3 */
#include "why.h"

BODY
{
    if (rank == 0)
        MPI_Ssend(&one, 1, MPI_INT, 2, 1, world);
    if (rank == 1)
        MPI_Recv(&one, 1, MPI_INT, 0, 1, world, IGNORE);
    MPI_Barrier(world);
}
