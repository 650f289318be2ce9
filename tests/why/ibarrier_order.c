/* why: collective-order|different-collectives|missing-from-collective ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    MPI_Request request;
    if (rank == 1) {
        MPI_Iallreduce(&one, &other, 1, MPI_INT, MPI_SUM, world, &request);
        MPI_Wait(&request, IGNORE);
        MPI_Barrier(world);
    } else {
        MPI_Barrier(world);
        MPI_Iallreduce(&one, &other, 1, MPI_INT, MPI_SUM, world, &request);
        MPI_Wait(&request, IGNORE);
    }
}
