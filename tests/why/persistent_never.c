/* why: unmatched-receive ranks=2 victims=0-1,3 */
#include "why.h"

BODY
{
    if (rank == 2) {
        MPI_Request request;
        MPI_Recv_init(&one, 1, MPI_INT, 1, 2, world, &request);
        MPI_Start(&request);
        MPI_Wait(&request, IGNORE);
    }
    MPI_Barrier(world);
}
