/* Two ranks start 2 further ranks with MPI_Comm_spawn, and then 3; all of them wait.
 *
 * Each prints a line when it begins to wait. Built with -DLATE, the children call
 * MPI_Init when they are allowed to. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, others;
    char *child[] = {"child", NULL};
    int rank, world = argc > 1;
    volatile int go_on = 1;

#ifdef LATE
    volatile int late = argc > 1;
    while (late)
        usleep(1000);
#endif
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (parent == MPI_COMM_NULL) {
        for (int count = 2; count <= 3; count++)
            MPI_Comm_spawn(argv[0], child, count, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &others, /* @spawn */
                           MPI_ERRCODES_IGNORE);
    }
    printf("%d of %d waits\n", rank, world);
    fflush(stdout);
    while (go_on) /* @wait */
        usleep(1000); /* @waiting */
    return 0;
}
