/* why: unmatched-receive ranks=3,5 victims=0-2,4 n=6 */
#include "why.h"

/* Rows of three. The last rank of the second row expects the message from its neighbour. */
BODY
{
    MPI_Comm row;
    int me;
    MPI_Comm_split(world, rank / 3, rank, &row);
    MPI_Comm_rank(row, &me);
    if (me == 0)
        MPI_Ssend(&one, 1, MPI_INT, 2, 4, row);
    if (me == 2)
        MPI_Recv(&one, 1, MPI_INT, rank < 3 ? 0 : 1, 4, row, IGNORE);
    MPI_Barrier(world);
}
