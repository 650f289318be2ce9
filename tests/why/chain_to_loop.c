/* why: waits-for-busy-rank ranks=3 victims=0-2 */
#include "why.h"

BODY
{
    if (rank < 3)
        MPI_Recv(&one, 1, MPI_INT, rank + 1, 2, world, IGNORE);
    else
        for (;;)
            work(1000);
}
