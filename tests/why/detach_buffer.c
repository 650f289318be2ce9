/* why: unmatched-send ranks=0 victims=1-3 */
#include "why.h"
BODY
{
    if (rank == 0) {
        int n = BIG * 4 + MPI_BSEND_OVERHEAD;
        void *b = malloc(n);
        MPI_Buffer_attach(b, n);
        MPI_Bsend(big, BIG / 2, MPI_INT, 1, 5, world);
        MPI_Buffer_detach(&b, &n);
    }
    MPI_Barrier(world);
    if (rank == 1)
        MPI_Recv(big, BIG / 2, MPI_INT, 0, 5, world, IGNORE);
    MPI_Barrier(world);
}
