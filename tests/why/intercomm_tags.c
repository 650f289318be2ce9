/* why: unmatched-receive ranks=0-3 victims= */
#include "why.h"
/* The two halves give different tags for the intercommunicator. */
BODY {
    MPI_Comm half, inter; int side = rank / 2;
    MPI_Comm_split(world, side, rank, &half);
    MPI_Intercomm_create(half, 0, world, side ? 0 : 2, 90 + side, &inter);
    MPI_Barrier(world);
}
