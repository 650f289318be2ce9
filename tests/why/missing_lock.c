/* why: missing-from-collective ranks=0 victims=1-3 */
#include "why.h"

BODY
{
    if (rank == 0) {
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&lock);
        pthread_mutex_lock(&lock);
    }
    MPI_Barrier(world);
}
