/* why: different-roots|different-collectives ranks=3 victims=0-2 */
#include "why.h"
static int leader(const int *table) { return table[rank]; }
BODY
{
    int table[4] = {0, 0, 0, 3};
    char *in = malloc((size_t)BIG * 4);
    MPI_Scatter(big, BIG / 4, MPI_INT, in, BIG / 4, MPI_INT, leader(table), world);
    MPI_Barrier(world);
}
