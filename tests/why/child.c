/* why: missing-from-collective ranks=0 victims=1-3 */
#include "why.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* Rank 0 waits for a program that does not end. */
BODY
{
    if (rank == 0) {
        pid_t child = fork();
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
        waitpid(child, NULL, 0);
    }
    MPI_Bcast(big, BIG, MPI_INT, 0, world);
}
