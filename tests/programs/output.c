/*
 * output: every rank R writes to both streams and leaves the last line of each without a newline.
 *
 * Standard output: "rank R out 1\n", "rank R out 2\n", "rank R out end"; standard error the same
 * with "err" for "out".  Each piece is flushed at once; the two streams take turns.
 */
#include <mpi.h>
#include <stdio.h>

static void say(int rank, const char *what, const char *end)
{
    fprintf(stdout, "rank %d out %s%s", rank, what, end); /* @out */
    fflush(stdout);
    fprintf(stderr, "rank %d err %s%s", rank, what, end); /* @err */
    fflush(stderr);
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    say(rank, "1", "\n");
    say(rank, "2", "\n");
    MPI_Barrier(MPI_COMM_WORLD); /* @barrier */
    say(rank, "end", "");        /* @end */

    MPI_Finalize();
    return 0;
}
