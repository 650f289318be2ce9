/* why: unmatched-receive ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    if (rank == 1) {
        MPI_Request request;
        int done = 0;
        MPI_Irecv(&one, 1, MPI_INT, 0, 2, world, &request);
        while (!done)
            MPI_Test(&request, &done, IGNORE);
    }
    MPI_Barrier(world);
}
