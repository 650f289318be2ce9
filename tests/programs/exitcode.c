/*
 * exitcode: one rank ends with an exit code of its own, the others with 0, all after MPI_Finalize.
 *
 * Usage: exitcode [RANK [CODE]]; without arguments every rank exits with 0.
 */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank;
    int chosen = argc > 1 ? atoi(argv[1]) : -1; /* @main */
    int code = argc > 2 ? atoi(argv[2]) : 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Finalize(); /* @finalize */

    return rank == chosen ? code : 0; /* @exit */
}
