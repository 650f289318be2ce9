/* why: different-collectives ranks=0 victims=1-3 */
#include "why.h"
BODY { double v = rank, s; for (int step = 0; step < 4; step++) { MPI_Reduce(&v, &s, 1, MPI_DOUBLE, MPI_SUM, 0, world); if (rank == 0 && step == 2) MPI_Reduce(&v, &s, 1, MPI_DOUBLE, MPI_MAX, 0, world); MPI_Barrier(world); } }
