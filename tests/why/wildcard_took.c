/* why: unmatched-receive ranks=0 victims=1-3 */
#include "why.h"

BODY
{
    if (rank == 0) {
        for (int i = 0; i < 2; i++)
            MPI_Recv(&one, 1, MPI_INT, i == 0 ? MPI_ANY_SOURCE : 2, 1, world, IGNORE);
        MPI_Recv(&one, 1, MPI_INT, 2, 1, world, IGNORE);
    }
    if (rank == 2)
        for (int i = 0; i < 2; i++)
            MPI_Send(&one, 1, MPI_INT, 0, 1, world);
    MPI_Barrier(world);
}
