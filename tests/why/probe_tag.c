/* why: unmatched-receive ranks=0-1 victims=2-3 */
#include "why.h"

/* Probes for any message, and receives the one of a fixed tag. */
BODY
{
    if (rank == 0)
        MPI_Ssend(&one, 1, MPI_INT, 1, 11, world);
    if (rank == 1) {
        MPI_Status status;
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
        MPI_Recv(&one, 1, MPI_INT, status.MPI_SOURCE, 10, world, IGNORE);
    }
    MPI_Barrier(world);
}
