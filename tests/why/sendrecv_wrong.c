/* why: cycle|unmatched-receive ranks=0-3 victims= */
#include "why.h"

BODY
{
    int right = (rank + 1) % size;
    MPI_Sendrecv(&one, 1, MPI_INT, right, 1, &other, 1, MPI_INT, right, 1, world, IGNORE);
}
