/* why: unmatched-receive ranks=2 victims=0-1,3 */
#include "why.h"
static int cleanup(MPI_Comm c, int key, void *value, void *extra) {
    int v;
    if (rank == 2) MPI_Recv(&v, 1, MPI_INT, 0, 3, world, MPI_STATUS_IGNORE);
    return MPI_SUCCESS;
}
BODY {
    MPI_Comm c; int key; MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, cleanup, &key, NULL);
    MPI_Comm_dup(world, &c); MPI_Comm_set_attr(c, key, big); MPI_Comm_free(&c); MPI_Barrier(world);
}
