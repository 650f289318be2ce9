/* why: different-collectives ranks=0 victims=1-3 */
#include "why.h"
BODY { int v = rank, all[64]; if (rank == 0) MPI_Gather(&v, 1, MPI_INT, all, 1, MPI_INT, 0, world); MPI_Barrier(world); }
