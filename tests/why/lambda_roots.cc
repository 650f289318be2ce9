/* why: different-roots|different-collectives ranks=2 victims=0-1,3 */
#include "why.h"

BODY
{
    auto spread = [](int root) { MPI_Bcast(big, BIG, MPI_INT, root, world); };
    spread(rank == 2 ? 2 : 0);
    MPI_Barrier(world);
}
