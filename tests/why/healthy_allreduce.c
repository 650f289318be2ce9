/* why: healthy */
#include "why.h"

BODY
{
    for (;;) {
        work(200);
        MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
    }
}
