/* why: unmatched-receive ranks=1 victims=0,2-3 */
#include "why.h"
BODY {
    int v = 3; MPI_Message m; MPI_Status s;
    if (rank == 0) MPI_Send(&v, 1, MPI_INT, 1, 12, world);
    if (rank == 1) {
        MPI_Mprobe(0, 12, world, &m, &s);
        MPI_Recv(&v, 1, MPI_INT, s.MPI_SOURCE, s.MPI_TAG, world, &s);
    }
    MPI_Barrier(world);
}
