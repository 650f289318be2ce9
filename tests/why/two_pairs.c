/* why: cycle|head-to-head-sends ranks=0-1 victims= */
#include "why.h"

BODY
{
    if (rank < 2)
        MPI_Recv(&one, 1, MPI_INT, 1 - rank, 2, world, IGNORE);
    else
        MPI_Ssend(&one, 1, MPI_INT, 5 - rank, 2, world);
}
