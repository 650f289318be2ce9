/* why: healthy */
#include "why.h"

BODY
{
    for (;;) {
        MPI_Request request;
        int done = 0;
        MPI_Ibarrier(world, &request);
        while (!done) {
            work(50);
            MPI_Test(&request, &done, IGNORE);
        }
    }
}
