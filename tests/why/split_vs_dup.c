/* why: different-collectives ranks=1 victims=0,2-3 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me; MPI_Comm c;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 1) MPI_Comm_dup(MPI_COMM_WORLD, &c); else MPI_Comm_split(MPI_COMM_WORLD, me & 1, 0, &c);
    MPI_Barrier(c);
    MPI_Finalize();
}
