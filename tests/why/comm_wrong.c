/* why: communicator-mixup ranks=0-1 victims=2-3 */
#include "why.h"

BODY
{
    MPI_Comm copy;
    MPI_Comm_dup(world, &copy);
    if (rank == 0)
        MPI_Ssend(&one, 1, MPI_INT, 1, 1, copy);
    if (rank == 1)
        MPI_Recv(&one, 1, MPI_INT, 0, 1, world, IGNORE);
    MPI_Barrier(world);
}
