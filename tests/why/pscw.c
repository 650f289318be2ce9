/* why: unmatched-rma ranks=0 victims=1-3 */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me, v = 3, t = 1; int *base; MPI_Win win; MPI_Group all, tgt;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (me == 0) {
        MPI_Group_incl(all, 1, &t, &tgt);
        MPI_Win_start(tgt, 0, win);
        MPI_Put(&v, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
        MPI_Win_complete(win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_free(&win);
    MPI_Finalize();
}
