/* why: waits-for-busy-rank ranks=2 victims=0-1,3 */
#include "why.h"

/* A line of ranks with halos. Rank 2 waits for a flag that nobody sets. */
static volatile int is_ready;

BODY
{
    double mine[8] = {0}, halo[16];
    for (int step = 0; step < 20; step++) {
        MPI_Request requests[4];
        int count = 0;
        for (int side = -1; side <= 1; side += 2) {
            int peer = rank + side;
            if (peer < 0 || peer >= size)
                continue;
            MPI_Irecv(halo + 4 * (side + 1), 8, MPI_DOUBLE, peer, 5, world, &requests[count++]);
            MPI_Isend(mine, 8, MPI_DOUBLE, peer, 5, world, &requests[count++]);
        }
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
        while (rank == 2 && step == 10 && !is_ready)
            ;
    }
}
