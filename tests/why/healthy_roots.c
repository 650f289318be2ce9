/* why: healthy */
#include "why.h"

BODY
{
    for (int root = 0;; root = (root + 1) % size) {
        MPI_Bcast(&one, 1, MPI_INT, root, world);
        MPI_Reduce(&one, &other, 1, MPI_INT, MPI_SUM, (root + 1) % size, world);
    }
}
