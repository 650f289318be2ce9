/* why: missing-from-collective ranks=2 victims=0-1,3 */
#include "why.h"
/* Rank 2 leaves a gather out; the others have left it, and the root waits. */
static void report(int step) { int mine = step, all[4]; if (rank != 2 || step != 3) MPI_Gather(&mine, 1, MPI_INT, all, 1, MPI_INT, 0, world); }
BODY { for (int step = 0; step < 6; step++) { report(step); MPI_Barrier(world); } }
