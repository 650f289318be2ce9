/* why: missing-from-collective ranks=0 victims=1-3 */
#include "why.h"
#include <netinet/in.h>
#include <sys/socket.h>

/* Waits for the viewer to connect. */
BODY
{
    if (rank == 0) {
        int served = socket(AF_INET, SOCK_STREAM, 0);
        listen(served, 1);
        accept(served, NULL, NULL);
    }
    MPI_Allgather(&one, 1, MPI_INT, big, 1, MPI_INT, world);
}
