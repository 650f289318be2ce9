/* why: healthy */
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int me, v = 0, f; MPI_Status s;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 0) for (;;) {
        MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &f, &s);
        if (!f) { usleep(200); continue; }
        MPI_Recv(&v, 1, MPI_INT, s.MPI_SOURCE, 0, MPI_COMM_WORLD, &s);
        MPI_Send(&v, 1, MPI_INT, s.MPI_SOURCE, 1, MPI_COMM_WORLD);
    } else for (;;) { MPI_Send(&v, 1, MPI_INT, 0, 0, MPI_COMM_WORLD); MPI_Recv(&v, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE); usleep(1000); }
}
