/* why: healthy */
#include "why.h"
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>

/* Rank 0 waits for a program that works. */
BODY
{
    if (rank == 0) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            work(1L << 44);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    MPI_Barrier(world);
}
