/* why: different-roots|different-collectives ranks=3 victims=0-2 */
#include "why.h"

BODY
{
    MPI_Bcast(big, BIG, MPI_INT, rank == 3 ? 1 : 0, world);
    MPI_Barrier(world);
}
