/* why: missing-from-collective ranks=5 victims=0-4 n=6 */
#include "why.h"
BODY {
    MPI_Comm half, inter, both; int side = rank / 3;
    MPI_Comm_split(world, side, rank, &half);
    MPI_Intercomm_create(half, 0, world, side ? 0 : 3, 7, &inter);
    if (rank == 5) for (;;) sleep(3600);
    MPI_Intercomm_merge(inter, side, &both);
    MPI_Barrier(both);
}
