/* why: unmatched-receive ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
#if MPI_VERSION >= 4
    MPI_Request request;
    if (rank == 0) {
        MPI_Psend_init(big, 4, 10, MPI_INT, 1, 2, world, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        for (int part = 0; part < 4; part++)
            if (part != 2)
                MPI_Pready(part, request);
    }
    if (rank == 1) {
        MPI_Precv_init(big, 4, 10, MPI_INT, 0, 2, world, MPI_INFO_NULL, &request);
        MPI_Start(&request);
        for (int part = 0; part < 4; part++)
            for (int flag = 0; !flag;)
                MPI_Parrived(request, part, &flag);
        MPI_Wait(&request, IGNORE);
    }
#else
    if (rank == 1)
        MPI_Recv(&one, 1, MPI_INT, 0, 2, world, IGNORE);
#endif
    MPI_Barrier(world);
}
