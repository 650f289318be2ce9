/* why: cycle ranks=1,3 victims= */
#include "why.h"

BODY
{
    MPI_Comm half;
    int mine;
    MPI_Comm_split(world, rank % 2, -rank, &half);
    MPI_Comm_rank(half, &mine);
    if (rank % 2 == 1)
        MPI_Recv(&one, 1, MPI_INT, 1 - mine, 2, half, IGNORE);
    else
        for (;;)
            sleep(1000);
}
