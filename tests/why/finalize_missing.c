/* why: missing-from-collective ranks=2 victims=0-1,3 */
#include <mpi.h>
#include <stdio.h>
static unsigned long gcd(unsigned long a, unsigned long b) { while (a != b) if (a > b) a -= b; else b -= a; return a; }
int main(int argc, char **argv)
{
    int me;
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 2) printf("%lu\n", gcd(12, 0 * me));
    MPI_Finalize();
}
