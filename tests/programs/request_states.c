/* Rank 0 waits for requests of every state: those that it waits for have odd tags. */
#include <mpi.h>

int main(int argc, char **argv)
{
    int rank, values[8] = {0};
    MPI_Request requests[8];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Irecv(&values[0], 1, MPI_INT, 1, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&values[1], 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(&values[2], 1, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(&values[3], 1, MPI_INT, 1, 6, MPI_COMM_WORLD, &requests[3]);
        MPI_Issend(&values[4], 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[4]);
        MPI_Recv_init(&values[5], 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &requests[5]);
        MPI_Recv_init(&values[6], 1, MPI_INT, 1, 7, MPI_COMM_WORLD, &requests[6]);
        MPI_Startall(2, &requests[5]);
        requests[7] = MPI_REQUEST_NULL;
        MPI_Waitall(8, requests, MPI_STATUSES_IGNORE); /* @wait */
    } else {
        MPI_Send(&values[0], 1, MPI_INT, 0, 2, MPI_COMM_WORLD);
        MPI_Send(&values[1], 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
        MPI_Recv(&values[2], 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
