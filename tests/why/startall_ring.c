/* why: unmatched-receive ranks=2 victims=0-1,3 or unmatched-receive ranks=2-3 victims=0-1 */
#include "why.h"
/* A persistent exchange with both neighbours, one end has another tag. Synchronous sends. */
BODY {
    MPI_Request q[4]; int l = (rank + size - 1) % size, r = (rank + 1) % size, a, b;
    MPI_Recv_init(&a, 1, MPI_INT, l, 5, world, &q[0]);
    MPI_Recv_init(&b, 1, MPI_INT, r, 6, world, &q[1]);
    MPI_Ssend_init(&rank, 1, MPI_INT, r, 5, world, &q[2]);
    MPI_Ssend_init(&rank, 1, MPI_INT, l, rank == 3 ? 66 : 6, world, &q[3]);
    for (int step = 0; step < 3; step++) {
        MPI_Startall(4, q);
        MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
    }
    MPI_Barrier(world);
}
