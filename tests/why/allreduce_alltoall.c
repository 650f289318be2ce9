/* why: different-collectives ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    if (rank == 1)
        MPI_Alltoall(big, 64, MPI_INT, big + BIG, 64, MPI_INT, world);
    else
        MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
    MPI_Barrier(world);
}
