/* why: missing-from-collective|different-collectives ranks=2 victims=0-1,3 */
#include "why.h"
BODY {
    MPI_Comm c; MPI_Request q;
    if (rank != 2) { MPI_Comm_idup(world, &c, &q); MPI_Wait(&q, IGNORE); }
    MPI_Barrier(world);
}
