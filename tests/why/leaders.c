/* why: missing-from-collective|collective-order|different-collectives ranks=2 victims=0-1,3 or collective-order ranks=0,2 victims=1,3 */
#include "why.h"
static MPI_Comm node, leaders;
static double norm(double x, int step) {
    double n = 0, all = 0; int me; MPI_Comm_rank(node, &me);
    MPI_Reduce(&x, &n, 1, MPI_DOUBLE, MPI_SUM, 0, node);
    if (me == 0 && !(rank == 2 && step == 3))
        MPI_Allreduce(&n, &all, 1, MPI_DOUBLE, MPI_SUM, leaders);
    MPI_Bcast(&all, 1, MPI_DOUBLE, 0, node);
    return all;
}
BODY {
    MPI_Comm_split(world, rank / 2, rank, &node);
    MPI_Comm_split(world, rank % 2 ? MPI_UNDEFINED : 0, rank, &leaders);
    for (int s = 0; s < 6; s++) norm(rank, s);
    MPI_Barrier(world);
}
