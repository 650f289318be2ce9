/* why: missing-from-collective|different-collectives ranks=5 victims=0-4,6-7 n=8 */
#include "why.h"
BODY { double mine = rank, all; for (int step = 0; step < 6; step++) { if (rank != 5 || step != 3) MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, world); MPI_Barrier(world); } }
