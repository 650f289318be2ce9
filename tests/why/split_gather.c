/* why: communicator-mixup ranks=3 victims=0-2 */
#include "why.h"
BODY
{
    MPI_Comm half;
    char *all = malloc((size_t)BIG * 4);
    MPI_Comm_split(world, rank % 2, rank, &half);
    big = all;
    if (rank == 3) MPI_Gather(all, BIG / 8, MPI_INT, all, BIG / 8, MPI_INT, 1, world);
    else MPI_Gather(all, BIG / 8, MPI_INT, all + BIG * 2, BIG / 8, MPI_INT, 0, half);
    MPI_Barrier(world);
}
