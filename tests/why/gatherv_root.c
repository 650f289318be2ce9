/* why: different-roots|different-collectives ranks=2 victims=0-1,3 or different-roots ranks=0,2 victims=1,3 */
#include <mpi.h>
#include <stdlib.h>
#define N 200000
int main(int argc, char **argv)
{
    int me, np, cnt[16], off[16];
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me); MPI_Comm_size(MPI_COMM_WORLD, &np);
    double *a = calloc(N, 8), *b = calloc(N * np, 8);
    for (int i = 0; i < np; i++) { cnt[i] = N; off[i] = N * i; }
    MPI_Gatherv(a, N, MPI_DOUBLE, b, cnt, off, MPI_DOUBLE, me == 2 ? 2 : 0, MPI_COMM_WORLD);
    MPI_Finalize();
}
