/* why: communicator-mixup ranks=2 victims=0-1,3 */
#include "why.h"

BODY
{
    MPI_Comm copy;
    MPI_Comm_dup(world, &copy);
    MPI_Barrier(rank == 2 ? copy : world);
}
