/* why: missing-from-collective ranks=1 victims=0,2-3 */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>
static int id(void) { char *s = getenv("OMPI_COMM_WORLD_RANK"); if (!s) s = getenv("PMI_RANK"); return s ? atoi(s) : -1; }
int main(int argc, char **argv)
{
    if (id() == 1) for (;;) sleep(100);
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
