/* why: collective-order|different-collectives|missing-from-collective ranks=2 victims=0-1,3 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int me; MPI_File f; int d[64] = {0}; char name[512];
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    snprintf(name, sizeof name, "%s/data", getenv("WHY_READY"));
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    MPI_File_set_view(f, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    if (me == 2) MPI_File_write_at(f, 64 * me, d, 64, MPI_INT, MPI_STATUS_IGNORE);
    else MPI_File_write_at_all(f, 64 * me, d, 64, MPI_INT, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_close(&f);
    MPI_Finalize();
}
