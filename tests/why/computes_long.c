/* why: healthy */
#include "why.h"

/* Each step of rank 2 takes hours, and is followed by a call that the others wait for. */
BODY
{
    for (long step = 0;; step++) {
        if (rank == 2)
            work(1L << 44);
        MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
    }
}
