/* why: unmatched-receive ranks=0 victims=1-3 */
#include "why.h"

BODY
{
    if (rank == 0) {
        MPI_Request requests[2];
        int values[2], which;
        for (int i = 0; i < 2; i++)
            MPI_Irecv(&values[i], 1, MPI_INT, i + 1, 2, world, &requests[i]);
        MPI_Waitany(2, requests, &which, IGNORE);
    }
    MPI_Barrier(world);
}
