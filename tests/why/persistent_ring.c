/* why: unmatched-receive ranks=0 victims=1-3 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me, np; int out, in; MPI_Request q[2];
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me); MPI_Comm_size(MPI_COMM_WORLD, &np);
    MPI_Recv_init(&in, 1, MPI_INT, (me + np - 1) % np, 99, MPI_COMM_WORLD, &q[0]);
    MPI_Send_init(&out, 1, MPI_INT, (me + 1) % np, 99, MPI_COMM_WORLD, &q[1]);
    for (int it = 0; it < 20; it++) {
        out = it;
        if (me == np - 1 && it == 5) MPI_Start(&q[0]); else MPI_Startall(2, q);
        MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
