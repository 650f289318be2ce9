/* why: unmatched-receive ranks=1 victims=0,2-3 */
#include "why.h"
#include <sched.h>
typedef void (*handler)(int);
static void done(int i) { (void)i; }
static handler handlers[3] = {done, done, done};
BODY {
    if (rank == 1) {
        MPI_Request q[3]; int in[3], left = 3, peers[] = {0, 2, 3};
        for (int i = 0; i < 3; i++)
            MPI_Irecv(&in[i], 1, MPI_INT, peers[i], 20 + peers[i], world, &q[i]);
        while (left) {
            int i, flag;
            MPI_Testany(3, q, &i, &flag, MPI_STATUS_IGNORE);
            if (flag && i >= 0) {
                handlers[i](i);
                left--;
            } else
                sched_yield();
        }
    } else MPI_Send(&rank, 1, MPI_INT, 1, rank == 3 ? 20 : 20 + rank, world);
    MPI_Barrier(world);
}
