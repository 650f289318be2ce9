/* why: missing-from-collective ranks=1 victims=0,2-4 n=5 */
#include "why.h"
BODY { int v = rank, all[64], cnt[8], off[8]; for (int i = 0; i < size; i++) cnt[i] = 1, off[i] = i;
 for (int step = 0; step < 3; step++) { if (rank != 1 || step != 1) MPI_Gatherv(&v, 1, MPI_INT, all, cnt, off, MPI_INT, 0, world); MPI_Barrier(world); } }
