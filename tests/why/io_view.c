/* why: collective-order|different-collectives|missing-from-collective ranks=3 victims=0-2 */
#include "why.h"
BODY {
    MPI_File f; char name[300]; int rows = rank == 3 ? 0 : 4;
    snprintf(name, sizeof name, "%s/io_view.dat",
             getenv("WHY_READY") ? getenv("WHY_READY") : "/tmp");
    MPI_File_open(world, name, MPI_MODE_CREATE | MPI_MODE_RDWR |
                  MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &f);
    if (rows > 0) {
        MPI_File_set_view(f, rank * rows * 8, MPI_DOUBLE, MPI_DOUBLE, "native", MPI_INFO_NULL);
        double d[4] = {0}; MPI_File_write(f, d, rows, MPI_DOUBLE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&f);
}
