/* why: unmatched-receive ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    if (rank == 1) {
        MPI_Request requests[2];
        int values[2], count, which[2];
        for (int i = 0; i < 2; i++)
            MPI_Irecv(&values[i], 1, MPI_INT, i + 2, 2, world, &requests[i]);
        MPI_Waitsome(2, requests, &count, which, MPI_STATUSES_IGNORE);
    }
    MPI_Barrier(world);
}
