/* why: unmatched-receive ranks=0 victims=1-3 */
#include "why.h"
static int finished(MPI_Request *q) { int f; MPI_Test(q, &f, IGNORE); return f; }
BODY
{
    int a = 0, b = 0, c = 0; MPI_Request q[3];
    if (rank == 0) {
        MPI_Irecv(&a, 1, MPI_INT, 1, 1, world, &q[0]);
        MPI_Irecv(&b, 1, MPI_INT, 2, 1, world, &q[1]);
        MPI_Irecv(&c, 1, MPI_INT, 3, 1, world, &q[2]);
        int left = 7;
        while (left) for (int i = 0; i < 3; i++) if (left & 1 << i && finished(&q[i])) left &= ~(1 << i);
    } else if (rank == 1) MPI_Send(&rank, 1, MPI_INT, 0, 1, world);
    MPI_Barrier(world);
}
