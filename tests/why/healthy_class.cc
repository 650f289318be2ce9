/* why: healthy */
#include "why.h"

struct Ring {
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    void turn() const
    {
        MPI_Sendrecv(&rank, 1, MPI_INT, right, 1, &other, 1, MPI_INT, left, 1, world, IGNORE);
    }
};

BODY
{
    const Ring ring;
    for (;;)
        ring.turn();
}
