/* why: missing-from-collective ranks=3 victims=0-2 */
#include "why.h"
#include <semaphore.h>

BODY
{
    sem_t filled;
    sem_init(&filled, 0, 0);
    if (rank == 3)
        sem_wait(&filled);
    MPI_Reduce(&one, &other, 1, MPI_INT, MPI_SUM, 0, world);
    MPI_Barrier(world);
}
