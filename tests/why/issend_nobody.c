/* why: unmatched-send ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    if (rank == 1) {
        MPI_Request request;
        MPI_Issend(&one, 1, MPI_INT, 3, 2, world, &request);
        MPI_Wait(&request, IGNORE);
    }
    MPI_Barrier(world);
}
