/* why: healthy */
#include "why.h"
BODY { int v = 1, s[64]; for (long i = 0;; i++) { if (rank == 1) usleep(30000); MPI_Gather(&v, 1, MPI_INT, s, 1, MPI_INT, 0, world); MPI_Reduce(&v, s, 1, MPI_INT, MPI_SUM, 2, world); MPI_Barrier(world); } }
