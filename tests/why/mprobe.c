/* why: unmatched-receive ranks=3 victims=0-2 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me, v; MPI_Message m; MPI_Status s;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 3) { MPI_Mprobe(0, 31, MPI_COMM_WORLD, &m, &s); MPI_Mrecv(&v, 1, MPI_INT, &m, &s); }
    if (me == 0) MPI_Send(&me, 1, MPI_INT, 3, 13, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
