/* why: missing-from-collective|collective-order|different-collectives ranks=3 victims=0-2 */
#include "why.h"

/* A rank without data leaves MPI_File_write_ordered out. */
BODY
{
    MPI_File file;
    char name[] = "/tmp/pgdb-why-ordered";
    MPI_File_open(world, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &file);
    if (rank != 3)
        MPI_File_write_ordered(file, &rank, 1, MPI_INT, IGNORE);
    MPI_File_close(&file);
}
