/* why: healthy */
#include "why.h"

BODY
{
    for (;;) {
        MPI_Status status;
        if (rank == 0) {
            MPI_Recv(&one, 1, MPI_INT, MPI_ANY_SOURCE, 1, world, &status);
            MPI_Send(&one, 1, MPI_INT, status.MPI_SOURCE, 2, world);
        } else {
            MPI_Sendrecv(&rank, 1, MPI_INT, 0, 1, &other, 1, MPI_INT, 0, 2, world, IGNORE);
            work(1000L * rank);
        }
    }
}
