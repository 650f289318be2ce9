/*
 * echo: rank 0 prints "rank 0 got: LINE" for every line of its standard input; the others wait.
 *
 * At the end of the input all ranks meet in the barrier and exit with 0.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long echo_lines(void)
{
    char *line = NULL;
    size_t capacity = 0;
    long count = 0;

    while (getline(&line, &capacity, stdin) >= 0) { /* @read */
        line[strcspn(line, "\n")] = '\0';
        printf("rank 0 got: %s\n", line); /* @print */
        fflush(stdout);
        count++;
    }
    free(line);
    return count;
}

int main(int argc, char **argv)
{
    int rank;
    long lines = 0; /* @main */

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    if (rank == 0)
        lines = echo_lines();
    MPI_Barrier(MPI_COMM_WORLD); /* @barrier */

    if (rank == 0)
        printf("rank 0 got %ld lines\n", lines);
    MPI_Finalize();
    return 0;
}
