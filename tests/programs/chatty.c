/* Ranks that write lines of their own, each as much as the argument says.
 *
 * Rank 1 dies with an exit status after its last line, if the next argument is "die". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, lines = argc > 1 ? atoi(argv[1]) : 3;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int line = 0; line < lines; line++)
        printf("line %d of rank %d\n", line, rank);
    fflush(stdout);
    fprintf(stderr, "rank %d is through\n", rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1 && argc > 2 && !strcmp(argv[2], "die"))
        exit(5); /* @die */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
