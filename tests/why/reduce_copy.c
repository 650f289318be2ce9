/* why: different-collectives ranks=0 victims=1-3 */
#include "why.h"
BODY { double v = 1, s; MPI_Comm copy; MPI_Comm_dup(world, &copy); MPI_Reduce(&v, &s, 1, MPI_DOUBLE, MPI_SUM, 0, copy); if (rank == 0) MPI_Reduce(&v, &s, 1, MPI_DOUBLE, MPI_SUM, 0, copy); MPI_Allreduce(&v, &s, 1, MPI_DOUBLE, MPI_SUM, world); }
