/*
 * question: rank 0 puts a question without a line end, reads the answer, and prints it.
 */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank;
    char answer[80] = ""; /* @main */

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        printf("Enter n: ");
        fflush(stdout);
        if (fgets(answer, sizeof answer, stdin) == NULL)
            answer[0] = '\0';
        answer[strcspn(answer, "\n")] = '\0';
        printf("n is %s\n", answer); /* @print */
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
