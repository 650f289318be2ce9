/* Rank 2 ends, without MPI_Finalize, once the file that the argument names is there; the others wait
 * for it in a barrier. */
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 2) {
        while (access(argv[1], F_OK) != 0)
            usleep(10000);
        raise(SIGKILL);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* barrier */
    MPI_Finalize();
    return 0;
}
