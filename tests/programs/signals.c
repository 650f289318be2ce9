/*
 * signals: call place(0) to place(2), raise SIGUSR1, call place(10), raise SIGUSR1, then crash with
 * an argument "crash", or end.  Rank r calls place(20 + r) before that.
 */
#include <mpi.h>
#include <signal.h>
#include <string.h>

static volatile int caught;

static void on_signal(int number)
{
    caught += number;
}

static int place(int i)
{
    return i + 1; /* @place */
}

int main(int argc, char **argv)
{
    int rank, i;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    signal(SIGUSR1, on_signal);
    for (i = 0; i < 3; i++)
        place(i);
    raise(SIGUSR1);
    place(10);
    raise(SIGUSR1);
    place(20 + rank);
    if (argc > 1 && strcmp(argv[1], "crash") == 0)
        *(volatile int *)0 = 0; /* @crash */
    MPI_Finalize(); /* @end */
    return 0;
}
