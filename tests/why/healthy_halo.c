/* why: healthy */
#include "why.h"

BODY
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size, in[2];
    for (;;) {
        MPI_Request requests[4];
        MPI_Irecv(&in[0], 1, MPI_INT, left, 1, world, &requests[0]);
        MPI_Irecv(&in[1], 1, MPI_INT, right, 2, world, &requests[1]);
        MPI_Isend(&one, 1, MPI_INT, right, 1, world, &requests[2]);
        MPI_Isend(&one, 1, MPI_INT, left, 2, world, &requests[3]);
        MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
        work(500);
    }
}
