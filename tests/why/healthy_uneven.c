/* why: healthy */
#include "why.h"

BODY
{
    for (;;) {
        work(rank == 2 ? 2000000 : 1000);
        MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
    }
}
