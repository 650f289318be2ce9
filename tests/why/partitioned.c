/* why: unmatched-receive|unmatched-send|cycle ranks=1 victims=0,2-3 */
#include "why.h"

/* One partition is never marked as ready. */
BODY
{
#if MPI_VERSION >= 4
    MPI_Request request;
    if (rank == 0) {
        MPI_Psend_init(big, 4, 16, MPI_INT, 1, 3, world, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        for (int i = 0; i < 3; i++)
            MPI_Pready(i, request);
    }
    if (rank == 1) {
        MPI_Precv_init(big, 4, 16, MPI_INT, 0, 3, world, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        MPI_Wait(&request, IGNORE);
    }
#else
    if (rank == 1)
        MPI_Recv(&one, 1, MPI_INT, 0, 3, world, IGNORE);
#endif
    MPI_Barrier(world);
}
