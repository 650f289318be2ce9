/* why: missing-from-collective ranks=2 victims=0-1,3-5 n=6 */
#include "why.h"
BODY {
    MPI_Comm ring; int dims = size, yes = 1, v = rank, got[2]; MPI_Request r;
    MPI_Cart_create(world, 1, &dims, &yes, 0, &ring);
    for (int it = 0; it < 4; it++) {
        if (rank == 2 && it == 3) continue;
        MPI_Ineighbor_allgather(&v, 1, MPI_INT, got, 1, MPI_INT, ring, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(world);
}
