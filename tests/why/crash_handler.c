/* why: missing-from-collective ranks=2 victims=0-1,3 */
#include "why.h"
#include <signal.h>

/* The handler of a crash waits for a debugger. */
static void wait_for_debugger(int number)
{
    for (;;)
        pause();
}

BODY
{
    signal(SIGSEGV, wait_for_debugger);
    if (rank == 2) {
        volatile int *nowhere = (int *)8;
        *nowhere = 1;
    }
    MPI_Barrier(world);
}
