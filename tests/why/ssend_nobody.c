/* why: unmatched-send ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    if (rank == 1)
        MPI_Ssend(&one, 1, MPI_INT, 3, 2, world);
    MPI_Barrier(world);
}
