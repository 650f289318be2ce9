/* why: waits-for-busy-rank ranks=1 victims=0 */
#include "why.h"

BODY
{
    if (rank == 0)
        MPI_Recv(&one, 1, MPI_INT, 1, 2, world, IGNORE);
    else
        for (;;)
            sleep(1000);
}
