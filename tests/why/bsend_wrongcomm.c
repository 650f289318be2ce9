/* why: unmatched-receive|communicator-mixup ranks=1 victims=0,2-3 */
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int me, v = 0; MPI_Comm lib;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_dup(MPI_COMM_WORLD, &lib); MPI_Comm_set_name(lib, "library");
    MPI_Buffer_attach(malloc(10000), 10000);
    if (me == 0) MPI_Bsend(&v, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    if (me == 1) MPI_Recv(&v, 1, MPI_INT, 0, 0, lib, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
