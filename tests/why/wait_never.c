/* why: unmatched-receive ranks=3 victims=0-2 */
#include "why.h"

BODY
{
    if (rank == 3) {
        MPI_Request request;
        MPI_Irecv(&one, 1, MPI_INT, 0, 2, world, &request);
        MPI_Wait(&request, IGNORE);
    }
    MPI_Barrier(world);
}
