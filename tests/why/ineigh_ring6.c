/* why: missing-from-collective ranks=4 victims=0-3,5 n=6 */
#include "why.h"
BODY {
    MPI_Comm ring; int dims = size, yes = 1, v = rank, got[2]; MPI_Request r;
    MPI_Cart_create(world, 1, &dims, &yes, 0, &ring);
    for (int it = 0; it < 3; it++) {
        if (rank == 4 && it == 1) continue;
        MPI_Ineighbor_alltoall(got, 1, MPI_INT, got, 1, MPI_INT, ring, &r);
        MPI_Wait(&r, MPI_STATUS_IGNORE);
    }
    (void)v;
    MPI_Barrier(world);
}
