/* why: unmatched-receive ranks=0 victims=1-3 */
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int me, flag = 0, n = 0; MPI_Status st;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 0) {
        while (n < 3) {
            MPI_Iprobe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, &flag, &st);
            if (flag) { int v; MPI_Recv(&v, 1, MPI_INT, st.MPI_SOURCE, 4, MPI_COMM_WORLD, &st); n++; }
            else usleep(500);
        }
    } else if (me != 2) MPI_Send(&me, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
