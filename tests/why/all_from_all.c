/* why: cycle ranks=0-2 victims= n=3 */
#include "why.h"
/* Each rank receives from both others first, and sends after that. */
BODY {
    MPI_Request r[8]; int n = 0, got[8];
    for (int p = 0; p < size; p++)
        if (p != rank) MPI_Irecv(&got[p], 1, MPI_INT, p, 9, world, &r[n++]);
    MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
    for (int p = 0; p < size; p++)
        if (p != rank) MPI_Send(&rank, 1, MPI_INT, p, 9, world);
}
