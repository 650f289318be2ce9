/* why: missing-from-collective|unmatched-receive|different-collectives|collective-order ranks=2-3 victims=0-1 */
#include "why.h"

/* Only the servers meet the clients. */
BODY
{
    MPI_Comm group, both;
    MPI_Comm_split(world, rank / 2, rank, &group);
    MPI_Intercomm_create(group, 0, world, rank < 2 ? 2 : 0, 7, &both);
    if (rank < 2)
        MPI_Barrier(both);
    else
        MPI_Recv(&one, 1, MPI_INT, 0, 1, world, IGNORE);
}
