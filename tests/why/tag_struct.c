/* why: unmatched-receive ranks=2 victims=0-1,3 */
#include <mpi.h>
#include <string.h>
struct msg { int len; char text[60]; };
static int get(struct msg *m, int from) { return MPI_Recv(m, sizeof *m, MPI_BYTE, from, m->len, MPI_COMM_WORLD, MPI_STATUS_IGNORE); }
static int put(struct msg *m, int to) { return MPI_Send(m, sizeof *m, MPI_BYTE, to, m->len, MPI_COMM_WORLD); }
int main(int argc, char **argv)
{
    int me; struct msg m; memset(&m, 0, sizeof m);
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    m.len = 60;
    if (me == 0) for (int i = 1; i < 4; i++) { if (i == 2) m.len = 61; put(&m, i); m.len = 60; }
    else get(&m, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
