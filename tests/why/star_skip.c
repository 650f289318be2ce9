/* why: missing-from-collective ranks=2 victims=0-1,3 */
#include "why.h"
/* MPI_Graph_create: a star; rank 2 does not make its part of the exchange. */
BODY {
    int index[4] = {3, 4, 5, 6}, edges[6] = {1, 2, 3, 0, 0, 0}; MPI_Comm star; int got[4];
    MPI_Graph_create(world, 4, index, edges, 0, &star);
    if (rank != 2) MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, star);
    MPI_Barrier(world);
}
