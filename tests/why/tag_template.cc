/* why: unmatched-receive ranks=0-1 victims=2-3 */
#include "why.h"

template <typename T> static void put(const T &value, int dest, int tag)
{
    MPI_Ssend(&value, sizeof value, MPI_BYTE, dest, tag, world);
}

template <typename T> static void get(T &value, int source, int tag)
{
    MPI_Recv(&value, sizeof value, MPI_BYTE, source, tag, world, IGNORE);
}

BODY
{
    double value = 0;
    if (rank == 0)
        put(value, 1, 20);
    if (rank == 1)
        get(value, 0, 21);
    MPI_Barrier(world);
}
