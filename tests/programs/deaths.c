/* Each rank dies in a way of its own; an argument names the only rank that dies.
 *
 * Rank 0 dies by an MPI error, 1 by MPI_Abort, 2 by exit, 3 by _exit, 4 by a return from main, 5 by
 * a failed assertion, 6 by quick_exit. Any other rank waits for them. With the argument 8, rank 2 is
 * killed as by a kernel without memory, with 9 by SIGTERM; with 10 it says why, and aborts. With 11
 * it sends itself a SIGTERM that it handles, and with 12 one by which rank 1 is ended. With 13 and 14
 * rank 1 leaves with status 0 and without MPI_Finalize, by exit and by a return from main. */
#include <assert.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void handle(int number)
{
    (void)number;
}

static void die(int kind, int size)
{
    int value = 7;

    if (kind == 0)
        MPI_Send(&value, 1, MPI_INT, size + 5, 0, MPI_COMM_WORLD); /* @error */
    if (kind == 1)
        MPI_Abort(MPI_COMM_WORLD, 3); /* @abort */
    if (kind == 2)
        exit(4); /* @exit */
    if (kind == 3)
        _exit(5); /* @_exit */
    if (kind == 5)
        assert(value == 8); /* @assert */
    if (kind == 6)
        quick_exit(6); /* @quick */
}

int main(int argc, char **argv)
{
    int rank, size, only;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    only = argc > 1 ? atoi(argv[1]) : rank;
    if (only == 8 && rank == 2)
        raise(SIGKILL);
    if (only == 9 && rank == 2)
        raise(SIGTERM); /* @term */
    if (only == 11 && rank == 2) {
        signal(SIGTERM, handle);
        raise(SIGTERM); /* @handled */
    }
    if (only == 12) {
        int pid = getpid();
        MPI_Bcast(&pid, 1, MPI_INT, 1, MPI_COMM_WORLD);
        if (rank == 2)
            kill(pid, SIGTERM); /* @other */
    }
    if (only == 13 && rank == 1)
        exit(0); /* @leaves */
    if (only == 14 && rank == 1)
        return 0;
    if (only == 10 && rank == 2) {
        fputs("no grid left\n", stderr);
        abort(); /* @gives-up */
    }
    if (rank == only) {
        die(rank, size);
        if (rank == 4)
            return 9;
    }
    MPI_Barrier(MPI_COMM_WORLD); /* @wait */
    MPI_Finalize();
    return 0;
}
