/* why: unmatched-receive ranks=1 victims=0,2 n=3 */
#include "why.h"
BODY {
    if (rank == 1) {
        MPI_Request q[4]; int v[4], n = 0, left = 4, done, which[4];
        for (int p = 0; p < 3; p += 2) for (int t = 0; t < 2; t++) { MPI_Irecv(&v[n], 1, MPI_INT, p, t, world, &q[n]); n++; }
        while (left > 0) { MPI_Testsome(4, q, &done, which, MPI_STATUSES_IGNORE); if (done > 0) left -= done; else usleep(200); }
    } else
        for (int t = 0; t < (rank == 0 ? 2 : 1); t++) MPI_Send(&one, 1, MPI_INT, 1, t, world);
    MPI_Barrier(world);
}
