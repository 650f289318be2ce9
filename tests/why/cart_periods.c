/* why: unmatched-receive ranks=0 victims=1-3 */
#include "why.h"

/* The sender's grid ends at the edge, the receiver's is a ring. */
BODY
{
    MPI_Comm line, ring;
    int left, right, from, no = 0, yes = 1;
    MPI_Cart_create(world, 1, &size, &no, 0, &line);
    MPI_Cart_create(world, 1, &size, &yes, 0, &ring);
    MPI_Cart_shift(line, 0, 1, &left, &right);
    MPI_Send(&one, 1, MPI_INT, right, 1, world);
    MPI_Cart_shift(ring, 0, 1, &from, &right);
    MPI_Recv(&one, 1, MPI_INT, from, 1, world, IGNORE);
    MPI_Barrier(world);
}
