/* why: missing-from-collective ranks=1 victims=0,2-3 */
#include "why.h"
#include <fcntl.h>
#include <sys/stat.h>

/* Opens a pipe with a name, which no process writes to. */
BODY
{
    char name[64];
    snprintf(name, sizeof name, "/tmp/why-fifo-%d", (int)getpid());
    if (rank == 1) {
        mkfifo(name, 0600);
        int file = open(name, O_RDONLY);
        unlink(name);
        if (file < 0)
            return;
    }
    MPI_Bcast(big, BIG, MPI_INT, 1, world);
}
