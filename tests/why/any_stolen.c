/* why: unmatched-receive ranks=0 victims=1-3 */
#include "why.h"

/* A receive of any source takes the answer that the next receive waits for. */
BODY
{
    if (rank == 1)
        MPI_Send(&one, 1, MPI_INT, 0, 5, world);
    MPI_Barrier(world);
    if (rank == 2)
        MPI_Send(&one, 1, MPI_INT, 0, 5, world);
    if (rank == 0) {
        MPI_Recv(&one, 1, MPI_INT, MPI_ANY_SOURCE, 5, world, IGNORE);
        MPI_Recv(&one, 1, MPI_INT, 1, 5, world, IGNORE);
    }
    MPI_Barrier(world);
}
