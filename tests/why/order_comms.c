/* why: collective-order|communicator-mixup ranks=0-3 victims= */
#include "why.h"

BODY
{
    MPI_Comm first, second;
    MPI_Comm_dup(world, &first);
    MPI_Comm_dup(world, &second);
    MPI_Barrier(rank < 2 ? first : second);
    MPI_Barrier(rank < 2 ? second : first);
}
