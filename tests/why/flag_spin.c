/* why: missing-from-collective ranks=1 victims=0,2-3 */
#include "why.h"

/* A signal was to set the flag. */
static volatile int stopped;

BODY
{
    if (rank == 1)
        while (!stopped)
            usleep(500);
    MPI_Barrier(world);
}
