/* why: healthy */
#include <mpi.h>
#include <stdlib.h>
static volatile double z;
int main(int argc, char **argv)
{
    int me; double a = 1, b;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me); srand(me);
    for (;;) { for (long i = 0; i < (me == 2 ? 20000000L : 1000000L); i++) z += i; MPI_Allreduce(&a, &b, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); }
}
