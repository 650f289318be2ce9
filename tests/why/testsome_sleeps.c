/* why: unmatched-receive ranks=0 victims=1-3 */
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int me, v[3], n, done = 0, which[3]; MPI_Request q[3];
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 0) {
        for (int i = 0; i < 3; i++) MPI_Irecv(&v[i], 1, MPI_INT, i + 1, i == 1 ? 7 : 0, MPI_COMM_WORLD, &q[i]);
        while (done < 3) { MPI_Testsome(3, q, &n, which, MPI_STATUSES_IGNORE); if (n != MPI_UNDEFINED) done += n; usleep(100000); }
    } else MPI_Send(&me, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
