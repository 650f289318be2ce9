/* why: cycle ranks=0-3 victims= */
#include "why.h"

BODY
{
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    MPI_Recv(&one, 1, MPI_INT, left, 9, world, IGNORE);
    MPI_Send(&one, 1, MPI_INT, right, 9, world);
}
