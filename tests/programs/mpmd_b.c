/*
 * mpmd_b: the other half of a job of two programs; its first rank adds 1 to what mpmd_a asks.
 *
 * Run as: mpirun -n 2 mpmd_a : -n 2 mpmd_b.  The answering rank prints
 * "mpmd_b rank R answered rank S: 42".  Alone in a job it aborts with exit code 2.
 * With an argument its ranks wait before that until a debugger sets waits to 0.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PROGRAM = 'b', OTHER = 'a', TAG = 5 };

static volatile int waits;

static void wait_to_go_on(void)
{
    while (waits)
        usleep(1000); /* @wait */
}

static int first_rank_of(const char *programs, int size, char program)
{
    for (int rank = 0; rank < size; rank++)
        if (programs[rank] == program)
            return rank;
    return -1;
}

static int answer_one(int peer)
{
    int value = 0;

    MPI_Recv(&value, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* @recv */
    value += 1;
    MPI_Send(&value, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD); /* @send */
    return value;
}

int main(int argc, char **argv)
{
    int rank, size;
    char program = PROGRAM; /* @main */

    waits = argc > 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    char *programs = calloc((size_t)size, 1);
    MPI_Allgather(&program, 1, MPI_CHAR, programs, 1, MPI_CHAR, MPI_COMM_WORLD); /* @gather */
    int peer = first_rank_of(programs, size, OTHER);
    if (peer < 0) {
        fprintf(stderr, "mpmd_b: no rank of this job runs mpmd_a\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    wait_to_go_on(); /* @go */

    if (rank == first_rank_of(programs, size, PROGRAM)) {
        int value = answer_one(peer); /* @answer */
        printf("mpmd_b rank %d answered rank %d: %d\n", rank, peer, value);
    }

    free(programs);
    MPI_Finalize(); /* @finalize */
    return 0;
}
