/* why: head-to-head-sends ranks=0-3 victims= */
#include "why.h"

BODY
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Send(big, BIG, MPI_INT, right, 2, world);
    MPI_Recv(big, BIG, MPI_INT, left, 2, world, IGNORE);
}
