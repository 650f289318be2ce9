/* why: cycle ranks=1-3 victims=0 */
#include "why.h"

BODY
{
    if (rank > 0) {
        int from = rank == 3 ? 1 : rank + 1;
        MPI_Recv(&one, 1, MPI_INT, from, rank, world, IGNORE);
        MPI_Send(&one, 1, MPI_INT, rank == 1 ? 3 : rank - 1, 0, world);
    }
    MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
}
