/* why: missing-from-collective|different-collectives|communicator-mixup|collective-order ranks=2 victims=0-1,3 */
#include "why.h"
/* Nonblocking consensus; rank 2 begins the barrier on the setup communicator. */
static MPI_Comm setup;
static void rendezvous(int nto, const int *to, MPI_Comm comm) {
    MPI_Request *out = (MPI_Request *)malloc(sizeof *out * nto), fence = MPI_REQUEST_NULL; int started = 0, done = 0;
    for (int i = 0; i < nto; i++) MPI_Issend(&rank, 1, MPI_INT, to[i], 40, world, out + i);
    while (!done) {
        int flag; MPI_Status s; MPI_Iprobe(MPI_ANY_SOURCE, 40, world, &flag, &s);
        if (flag) { int v; MPI_Recv(&v, 1, MPI_INT, s.MPI_SOURCE, 40, world, IGNORE); }
        if (started) MPI_Test(&fence, &done, IGNORE);
        else { int all; MPI_Testall(nto, out, &all, MPI_STATUSES_IGNORE); if (all) { MPI_Ibarrier(comm, &fence); started = 1; } }
    }
    free(out);
}
BODY {
    MPI_Comm_dup(world, &setup);
    int to[2] = {(rank + 1) % size, (rank + 3) % size};
    rendezvous(2, to, world);
    rendezvous(1, to, rank == 2 ? setup : world);
    MPI_Barrier(world);
}
