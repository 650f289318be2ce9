/* why: rank-left ranks=1 victims=0,2-3 */
#include "why.h"

BODY
{
    for (int i = 0; i < (rank == 1 ? 10 : 11); i++)
        MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
}
