/* why: missing-from-collective|different-collectives ranks=0 victims=1-3 */
#include "why.h"

/* Rank 0 has made the file, and believes that it need not open it. */
BODY
{
    MPI_File file;
    char name[64];
    int first = (int)getpid();
    MPI_Bcast(&first, 1, MPI_INT, 0, world);
    snprintf(name, sizeof name, "/tmp/why-file-%d", first);
    if (rank == 0) {
        FILE *made = fopen(name, "w");
        if (made != NULL)
            fclose(made);
    } else
        MPI_File_open(world, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
    MPI_Barrier(world);
}
