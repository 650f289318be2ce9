/* why: no-connection ranks=0 victims=1-3 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me; char port[MPI_MAX_PORT_NAME]; MPI_Comm c;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 0) { MPI_Open_port(MPI_INFO_NULL, port); MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &c); }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
