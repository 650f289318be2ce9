/* why: missing-from-collective ranks=4 victims=0-3,5 n=6 */
#include "why.h"
/* A line of ranks as a graph; rank 4 leaves the exchange out when it has no halo. */
BODY {
    MPI_Comm line; int n = 0, nb[2], counts[2] = {1, 1}, displs[2] = {0, 1}, out[2] = {0}, in[2];
    if (rank > 0) nb[n++] = rank - 1;
    if (rank < size - 1) nb[n++] = rank + 1;
    MPI_Dist_graph_create_adjacent(world, n, nb, MPI_UNWEIGHTED, n, nb, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &line);
    MPI_Neighbor_alltoallv(out, counts, displs, MPI_INT, in, counts, displs, MPI_INT, line);
    if (rank != 4) MPI_Neighbor_alltoallv(out, counts, displs, MPI_INT, in, counts, displs, MPI_INT, line);
    MPI_Allreduce(&rank, &n, 1, MPI_INT, MPI_SUM, world);
}
