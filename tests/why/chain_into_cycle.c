/* why: cycle ranks=0-1 victims=2-3 */
#include "why.h"

BODY
{
    int from = rank == 0 ? 1 : rank - 1;
    MPI_Recv(&one, 1, MPI_INT, from, 5, world, IGNORE);
}
