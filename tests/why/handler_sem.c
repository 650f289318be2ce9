/* why: missing-from-collective ranks=2 victims=0-1,3 */
#include "why.h"
#include <semaphore.h>
#include <signal.h>
static sem_t done;
static void on_usr1(int n) { (void)n; while (sem_wait(&done)); }
BODY
{
    sem_init(&done, 0, 0);
    signal(SIGUSR1, on_usr1);
    double s = 0;
    for (int i = 0; i < 100; i++) {
        if (rank == 2 && i == 50)
            raise(SIGUSR1);
        MPI_Allreduce(MPI_IN_PLACE, &s, 1, MPI_DOUBLE, MPI_SUM, world);
    }
}
