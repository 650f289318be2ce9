/* why: slow|healthy ranks=2 victims=0-1,3 */
#include "why.h"

BODY
{
    for (;;) {
        if (rank == 2)
            usleep(4000000);
        MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
    }
}
