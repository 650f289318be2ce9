/* why: cycle ranks=0-1,3 victims=2,4-6 n=7 */
#include <mpi.h>
/* tree reduction: parent receives from right child first; child 3 waits for 0's ack */
int main(int argc, char **argv)
{
    int me, np, v = 1, t;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me); MPI_Comm_size(MPI_COMM_WORLD, &np);
    if (me == 3) MPI_Recv(&t, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int c = 2 * me + 1; c <= 2 * me + 2; c++)
        if (c < np) MPI_Recv(&t, 1, MPI_INT, c, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (me) MPI_Ssend(&v, 1, MPI_INT, (me - 1) / 2, 1, MPI_COMM_WORLD);
    if (me == 0) MPI_Send(&t, 1, MPI_INT, 3, 9, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
