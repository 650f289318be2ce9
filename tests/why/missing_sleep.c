/* why: missing-from-collective ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    if (rank == 1)
        sleep(100000);
    MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
}
