/* why: unmatched-send ranks=0 victims=1-3 */
#include "why.h"

/* The sender counts its chunks to the last one, the receivers to the one before. */
enum { CHUNK = 300000, CHUNKS = 9 };

static void put(int to)
{
    for (int i = 0; i <= CHUNKS; i++)
        MPI_Send(big, CHUNK, MPI_CHAR, to, 9, world);
}

static void get(void)
{
    for (int i = 0; i < CHUNKS; i++)
        MPI_Recv(big, CHUNK, MPI_CHAR, 0, 9, world, IGNORE);
}

BODY
{
    if (rank == 0)
        for (int to = 1; to < size; to++)
            put(to);
    else
        get();
    MPI_Allreduce(&one, &other, 1, MPI_INT, MPI_SUM, world);
}
