/* why: unmatched-receive ranks=2 victims=0-1,3 */
#include "why.h"
/* Twenty requests of each rank; one message of rank 1 has a tag of the next round. */
BODY {
    MPI_Request q[20]; static int in[10][100], out[10][100]; int l = (rank + size - 1) % size, r = (rank + 1) % size;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 10; i++) {
            MPI_Irecv(in[i], 100, MPI_INT, l, round * 10 + i, world, &q[i]);
            MPI_Isend(out[i], 100, MPI_INT, r, (round + (rank == 1 && round == 3 && i == 6)) * 10 + i, world, &q[10 + i]);
        }
        MPI_Waitall(20, q, MPI_STATUSES_IGNORE);
    }
    MPI_Barrier(world);
}
