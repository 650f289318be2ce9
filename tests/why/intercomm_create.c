/* why: unmatched-receive|missing-from-collective|communicator-mixup|cycle|different-collectives ranks=2-3 victims=0-1 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me; MPI_Comm half, inter;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_split(MPI_COMM_WORLD, me / 2, me, &half);
    if (me < 2) MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 2, 12, &inter);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
