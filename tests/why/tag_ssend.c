/* why: unmatched-receive ranks=0-1 victims=2-3 */
#include "why.h"

BODY
{
    if (rank == 0)
        MPI_Ssend(&one, 1, MPI_INT, 1, 7, world);
    if (rank == 1)
        MPI_Recv(&one, 1, MPI_INT, 0, 8, world, IGNORE);
    MPI_Barrier(world);
}
