/* why: unmatched-receive ranks=0 victims=1-3 */
#include "why.h"

BODY
{
    if (rank == 0) {
        MPI_Request requests[3];
        int values[3];
        for (int i = 0; i < 3; i++)
            MPI_Irecv(&values[i], 1, MPI_INT, i + 1, 2, world, &requests[i]);
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    } else if (rank != 2) {
        MPI_Send(&one, 1, MPI_INT, 0, 2, world);
    }
    MPI_Barrier(world);
}
