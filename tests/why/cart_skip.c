/* why: missing-from-collective ranks=3 victims=0-2 */
#include "why.h"
static MPI_Comm grid;
static void halo(int active) { int v = rank, got[4]; if (active) MPI_Neighbor_allgather(&v, 1, MPI_INT, got, 1, MPI_INT, grid); }
BODY {
    int dims[2] = {2, 2}, periods[2] = {0, 0};
    MPI_Cart_create(world, 2, dims, periods, 0, &grid);
    for (int i = 0; i < 5; i++) halo(!(rank == 3 && i == 3));
    MPI_Barrier(world);
}
