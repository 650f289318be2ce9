/* why: head-to-head-sends|cycle ranks=0-4 victims= n=5 */
#include "why.h"
BODY {
    MPI_Request s; int got;
    MPI_Issend(&rank, 1, MPI_INT, (rank + 1) % size, 4, world, &s);
    MPI_Wait(&s, IGNORE);
    MPI_Recv(&got, 1, MPI_INT, (rank + size - 1) % size, 4, world, IGNORE);
}
