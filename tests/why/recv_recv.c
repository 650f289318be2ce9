/* why: cycle ranks=0-1 victims=2-3 */
#include "why.h"

BODY
{
    if (rank < 2)
        MPI_Recv(&one, 1, MPI_INT, 1 - rank, 3, world, IGNORE);
    MPI_Barrier(world);
}
