/* why: different-collectives ranks=3 victims=0-2 */
#include "why.h"

BODY
{
    if (rank == 3)
        MPI_Bcast(big, BIG, MPI_INT, 0, world);
    else
        MPI_Barrier(world);
}
