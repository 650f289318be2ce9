/* why: missing-from-collective ranks=1 victims=0,2-3 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me; volatile int *base; MPI_Win win;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&base, &win);
    *base = 0;
    MPI_Win_lock_all(0, win);
    if (me == 1) while (*base == 0) MPI_Win_sync(win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
