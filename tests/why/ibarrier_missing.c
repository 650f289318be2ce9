/* why: unmatched-receive ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    if (rank == 1)
        MPI_Recv(&one, 1, MPI_INT, 0, 2, world, IGNORE);
    MPI_Request request;
    MPI_Ibarrier(world, &request);
    MPI_Wait(&request, IGNORE);
}
