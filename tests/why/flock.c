/* why: missing-from-collective ranks=2 victims=0-1,3 */
#include "why.h"
#include <fcntl.h>
#include <sys/file.h>

/* Each rank locks the file for the whole step. */
BODY
{
    char name[64];
    int first = (int)getpid();
    MPI_Bcast(&first, 1, MPI_INT, 0, world);
    snprintf(name, sizeof name, "/tmp/why-lock-%d", first);
    int file = open(name, O_RDWR | O_CREAT, 0600);
    if (rank == 1)
        flock(file, LOCK_EX);
    MPI_Barrier(world);
    unlink(name);
    if (rank == 2)
        flock(file, LOCK_EX);
    MPI_Barrier(world);
    flock(file, LOCK_UN);
}
