/* why: rank-left ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    MPI_Comm mine = rank == 1 ? MPI_COMM_SELF : world;
    MPI_Barrier(mine);
}
