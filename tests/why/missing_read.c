/* why: missing-from-collective ranks=3 victims=0-2 */
#include "why.h"

BODY
{
    if (rank == 3) {
        int ends[2];
        char byte;
        if (pipe(ends) == 0 && read(ends[0], &byte, 1) == 1)
            one = byte;
    }
    MPI_Barrier(world);
}
