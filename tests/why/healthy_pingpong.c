/* why: healthy */
#include "why.h"

BODY
{
    for (;;) {
        if (rank % 2 == 0)
            MPI_Send(&one, 1, MPI_INT, rank + 1, 2, world);
        MPI_Recv(&one, 1, MPI_INT, rank ^ 1, 2, world, IGNORE);
        if (rank % 2 == 1)
            MPI_Send(&one, 1, MPI_INT, rank - 1, 2, world);
    }
}
