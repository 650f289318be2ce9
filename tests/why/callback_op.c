/* why: missing-from-collective|waits-for-busy-rank ranks=1 victims=0,2-3 */
#include "why.h"
static volatile int go_on;
static void my_max(void *in, void *out, int *len, MPI_Datatype *type)
{
    int *a = in, *b = out;
    if (rank == 1)
        while (!go_on)
            ;
    for (int i = 0; i < *len; i++)
        if (a[i] > b[i]) b[i] = a[i];
}
BODY
{
    MPI_Op op;
    int mine[4] = {rank, 2, 3, 4}, all[4];
    MPI_Op_create(my_max, 1, &op);
    MPI_Allreduce(mine, all, 4, MPI_INT, op, world);
    MPI_Barrier(world);
}
