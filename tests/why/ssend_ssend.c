/* why: head-to-head-sends ranks=0-1 victims=2-3 */
#include "why.h"

BODY
{
    if (rank < 2) {
        MPI_Ssend(&one, 1, MPI_INT, 1 - rank, 4, world);
        MPI_Recv(&other, 1, MPI_INT, 1 - rank, 4, world, IGNORE);
    }
    MPI_Barrier(world);
}
