/* why: missing-from-collective ranks=1 victims=0,2-3 */
#include "why.h"
static void stay(MPI_Comm *c, int *code, ...) { for (;;) pause(); }
BODY {
    MPI_Errhandler h; MPI_Comm_create_errhandler(stay, &h); MPI_Comm_set_errhandler(world, h);
    if (rank == 1) MPI_Send(&rank, 1, MPI_INT, size + 3, 0, world);
    MPI_Barrier(world);
}
