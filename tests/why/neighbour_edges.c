/* why: missing-from-collective|unmatched-receive|different-collectives ranks=3 victims=0-2 */
#include "why.h"

/* Rank 3 lists rank 0 as a source, and rank 0 does not list it as a destination. */
BODY
{
    MPI_Comm graph;
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    int sources[2] = {left, 0}, destinations[1] = {right};
    MPI_Dist_graph_create_adjacent(world, rank == 3 ? 2 : 1, sources, MPI_UNWEIGHTED, 1,
                                   destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    MPI_Neighbor_allgather(&one, 1, MPI_INT, big, 1, MPI_INT, graph);
    MPI_Barrier(world);
}
