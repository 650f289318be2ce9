/* recorded: four ranks, each of which waits for ever in another call of MPI. */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Comm half, twin;
    MPI_Request requests[2];
    MPI_Win window;
    double x = 1, y;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    MPI_Comm_set_name(half, "half");
    MPI_Comm_dup(half, &twin);
    MPI_Win_create(&x, sizeof x, sizeof x, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i < 5; i++)
        MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, half);
    if (rank == 0) {
        MPI_Irecv(&y, 1, MPI_DOUBLE, 0, 7, twin, &requests[0]);
        MPI_Irecv(&y, 1, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
        MPI_Recv(&y, 3, MPI_FLOAT, 0, 5, half, MPI_STATUS_IGNORE); /* @receive */
    } else if (rank == 2) {
        MPI_Bcast(&x, 1, MPI_INT, 1, twin);
    } else {
        MPI_Win_fence(0, window);
    }
    MPI_Finalize();
    return 0;
}
