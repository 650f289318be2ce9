/* why: unmatched-receive ranks=2 victims=0-1,3 */
#include "why.h"

BODY
{
    if (rank == 2)
        MPI_Probe(3, 6, world, IGNORE);
    MPI_Barrier(world);
}
