/* why: unmatched-receive ranks=0-3 victims= or cycle ranks=0-3 victims= */
#include "why.h"
#include <stdint.h>

/* The receiver keeps its tag in 16 bits; all messages are sent before that. */
struct envelope {
    uint16_t tag;
    double body[64];
};

static int tag_of(int step, int from)
{
    return step * 1000 + from;
}

BODY
{
    static struct envelope given, kept;
    int from = (rank + size - 1) % size;

    for (int step = 60; step < 80; step++) {
        MPI_Request sent;
        MPI_Isend(given.body, 64, MPI_DOUBLE, (rank + 1) % size, tag_of(step, rank), world, &sent);
        kept.tag = (uint16_t)tag_of(step, from);
        MPI_Recv(kept.body, 64, MPI_DOUBLE, from, kept.tag, world, IGNORE);
        MPI_Wait(&sent, IGNORE);
    }
}
