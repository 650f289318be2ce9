/* why: missing-from-collective ranks=2 victims=0-1,3-4 n=5 */
#include "why.h"
BODY { int v = rank, s; for (int i = 0; i < 3; i++) { if (!(rank == 2 && i == 1)) MPI_Scan(&v, &s, 1, MPI_INT, MPI_SUM, world); MPI_Barrier(world); } }
