/*
 * mpi_identities: all ranks but 1 stand in MPI_Barrier on one communicator after the other.
 *
 * Four ranks.  Ranks 2 and 3 have made communicators of their own first, so that numbers that each
 * rank counts for itself differ.  Rank 1 joins the barrier of a stage once released = STAGE, which
 * a debugger sets.
 */
#include <mpi.h>
#include <unistd.h>

volatile int released = 0; /* a debugger sets it */
volatile int stage = 0;

int main(int argc, char **argv)
{
    MPI_Comm all[4], half, own;
    int rank, n;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (n = 0; n < rank / 2; n++)
        MPI_Comm_dup(MPI_COMM_SELF, &own);
    MPI_Comm_dup(MPI_COMM_WORLD, &all[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &all[1]);
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < 2 ? 2 : 0, 9, &all[2]);
    MPI_Intercomm_merge(all[2], rank / 2, &all[3]);
    for (n = 0; n < 4; n++) {
        stage = n + 1;
        while (rank == 1 && released <= n)
            usleep(1000);
        MPI_Barrier(all[n]);
    }
    MPI_Finalize();
    return 0;
}
