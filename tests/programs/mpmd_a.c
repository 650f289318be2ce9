/*
 * mpmd_a: one half of a job of two programs; its first rank asks, the first rank of mpmd_b answers.
 *
 * Run as: mpirun -n 2 mpmd_a : -n 2 mpmd_b.  The asking rank prints
 * "mpmd_a rank R asked rank S: 42".  Alone in a job it aborts with exit code 2.
 * With an argument its ranks wait before that until a debugger sets waits to 0.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PROGRAM = 'a', OTHER = 'b', TAG = 5 };

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

static int ask(int peer, int question)
{
    int answer = 0;

    MPI_Send(&question, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD);                  /* @send */
    MPI_Recv(&answer, 1, MPI_INT, peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* @recv */
    return answer;
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
        fprintf(stderr, "mpmd_a: no rank of this job runs mpmd_b\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    wait_to_go_on(); /* @go */

    if (rank == first_rank_of(programs, size, PROGRAM)) {
        int answer = ask(peer, 41); /* @ask */
        printf("mpmd_a rank %d asked rank %d: %d\n", rank, peer, answer);
    }

    free(programs);
    MPI_Finalize(); /* @finalize */
    return 0;
}
