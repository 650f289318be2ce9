/* why: missing-from-collective ranks=1 victims=0,2-3 */
#include "why.h"
BODY { double v = rank, s; for (int step = 0; step < 4; step++) { if (rank != 1 || step != 2) MPI_Reduce(&v, &s, 1, MPI_DOUBLE, MPI_SUM, 0, world); MPI_Barrier(world); } }
