/* Two ranks start three further ones. A message of the last of these has a wrong tag: rank 0 waits
 * for another one. With an argument the three send nothing, and sleep. */
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    int rank, value;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_parent(&parent);
    value = rank;
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], argv + 1, 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children,
                       MPI_ERRCODES_IGNORE);
        if (rank == 0)
            MPI_Recv(&value, 1, MPI_INT, 2, 5, children, MPI_STATUS_IGNORE); /* @receive */
    } else if (argc > 1) {
        for (;;)
            usleep(1000);
    } else if (rank == 2) {
        MPI_Ssend(&value, 1, MPI_INT, 0, 6, parent); /* @send */
    }
    MPI_Barrier(MPI_COMM_WORLD); /* @barrier */
    MPI_Finalize();
    return 0;
}
