/* Rank 0 waits for requests of every kind, on communicators in which ranks have other numbers. */
#include <mpi.h>
#include <stdlib.h>

enum { LARGE = 1 << 23 };

static int is_asked(void *state, MPI_Status *status)
{
    (void)state;
    return MPI_Status_set_elements(status, MPI_INT, 0);
}

static int is_freed(void *state)
{
    (void)state;
    return MPI_SUCCESS;
}

static int is_cancelled(void *state, int complete)
{
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank, n = 0, values[32];
    char *large = calloc(LARGE, 1);
    MPI_Comm dup, sub;
    MPI_Request requests[16];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 2, -rank, &sub); /* members 3, 1, 0 */
    MPI_Comm_set_name(dup, "dup");
    MPI_Comm_set_name(sub, "sub");
    if (rank == 0) {
        MPI_Irecv(&values[0], 3, MPI_INT, 1, 301, dup, &requests[n++]);
        MPI_Irecv(&values[4], 2, MPI_INT, 0, 302, sub, &requests[n++]);
        MPI_Irecv(&values[6], 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, sub, &requests[n++]);
        MPI_Irecv(&values[8], 2, MPI_INT, MPI_ANY_SOURCE, 303, MPI_COMM_WORLD, &requests[n++]);
        MPI_Issend(&values[10], 2, MPI_INT, 3, 304, dup, &requests[n++]);
        MPI_Isend(large, LARGE, MPI_CHAR, 1, 305, sub, &requests[n++]);
        MPI_Recv_init(&values[12], 1, MPI_INT, 0, 306, sub, &requests[n++]);
        MPI_Send_init(&values[13], 1, MPI_INT, 1, 307, sub, &requests[n++]);
        MPI_Recv_init(&values[14], 1, MPI_INT, 2, 308, dup, &requests[n]);
        MPI_Start(&requests[n++]);
        MPI_Ibarrier(dup, &requests[n++]);
        MPI_Grequest_start(is_asked, is_freed, is_cancelled, NULL, &requests[n++]);
        requests[n++] = MPI_REQUEST_NULL;
        MPI_Waitall(n, requests, MPI_STATUSES_IGNORE); /* @wait */
    } else {
        MPI_Recv(&values[0], 1, MPI_INT, 0, 999, dup, MPI_STATUS_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
