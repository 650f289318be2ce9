/* why: missing-from-collective ranks=2 victims=0-1,3 */
#include "why.h"

BODY
{
    if (rank == 2)
        for (;;)
            work(1000);
    MPI_Barrier(world);
}
