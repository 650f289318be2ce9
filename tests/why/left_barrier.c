/* why: rank-left ranks=3 victims=0-2 */
#include "why.h"

BODY
{
    if (rank != 3)
        MPI_Barrier(world);
}
