/* why: different-collectives ranks=0-3 victims= or rank-left ranks=1,3 victims=0,2 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me, a = 1, b; MPI_Request q;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 2) MPI_Iallreduce(&a, &b, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &q);
    else MPI_Ibarrier(MPI_COMM_WORLD, &q);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    MPI_Finalize();
}
