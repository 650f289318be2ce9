/* why: unmatched-receive ranks=1 victims=0,2-3 */
#include "why.h"
static void nbx(const int *to, int n)
{
    MPI_Request sends[4], barrier; int active = 0, done = 0, flag, v; MPI_Status st;
    for (int i = 0; i < n; i++) MPI_Issend(&rank, 1, MPI_INT, to[i], 30, world, &sends[i]);
    while (!done) {
        MPI_Iprobe(MPI_ANY_SOURCE, 30, world, &flag, &st);
        if (flag) MPI_Recv(&v, 1, MPI_INT, st.MPI_SOURCE, 30, world, IGNORE);
        if (!active) {
            MPI_Testall(n, sends, &flag, MPI_STATUSES_IGNORE);
            if (flag) { MPI_Ibarrier(world, &barrier); active = 1; }
        } else MPI_Test(&barrier, &done, IGNORE);
    }
}
BODY
{
    int to = rank == 0 ? 2 : rank == 2 ? 3 : 0, v;
    if (rank == 1) MPI_Recv(&v, 1, MPI_INT, 3, 99, world, IGNORE);
    nbx(&to, 1);
    MPI_Barrier(world);
}
