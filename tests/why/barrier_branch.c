/* why: rank-left ranks=0,2 victims=1,3 */
#include "why.h"

/* A barrier for the ranks that have work only. */
BODY
{
    if (rank % 2)
        MPI_Barrier(world);
}
