/* why: missing-from-collective|different-collectives ranks=0 victims=1-3 */
#include "why.h"

/* Rank 0 has nothing to write, and believes that it need not open the file. */
BODY
{
    MPI_File file;
    if (rank != 0)
        MPI_File_open(world, "/dev/null", MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    MPI_Barrier(world);
}
