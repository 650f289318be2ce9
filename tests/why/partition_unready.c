/* why: unmatched-send ranks=0 victims=1-3 */
#include "why.h"

/* Both sides wait for the message, of which one partition is not marked as ready. */
BODY
{
#if MPI_VERSION >= 4
    MPI_Request request;
    if (rank == 0) {
        MPI_Psend_init(big, 4, 1000, MPI_INT, 1, 8, world, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        for (int i = 0; i < 3; i++)
            MPI_Pready(i, request);
        MPI_Wait(&request, IGNORE);
    }
    if (rank == 1) {
        MPI_Precv_init(big, 4, 1000, MPI_INT, 0, 8, world, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, IGNORE);
    }
#else
    if (rank == 0)
        MPI_Ssend(&one, 1, MPI_INT, 1, 8, world);
#endif
    MPI_Barrier(world);
}
