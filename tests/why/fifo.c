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
        int file = open(name, O_RDONLY | O_NONBLOCK);
        unlink(name);
        snprintf(name, sizeof name, "/proc/self/fd/%d", file);
        open(name, O_RDONLY);
    }
    MPI_Bcast(big, BIG, MPI_INT, 1, world);
}
