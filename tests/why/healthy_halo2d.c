/* why: healthy n=6 */
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int d[2] = {3, 2}, p[2] = {1, 1}, nb[4], n = 20000; MPI_Comm c; MPI_Request r[8]; double *u = calloc(8 * n, 8), s = 0, t;
    MPI_Init(&argc, &argv);
    MPI_Cart_create(MPI_COMM_WORLD, 2, d, p, 1, &c);
    MPI_Cart_shift(c, 0, 1, nb, nb + 1); MPI_Cart_shift(c, 1, 1, nb + 2, nb + 3);
    for (;;) {
        for (int i = 0; i < 4; i++) { MPI_Irecv(u + i * n, n, MPI_DOUBLE, nb[i], i, c, r + i); MPI_Isend(u + (4 + i) * n, n, MPI_DOUBLE, nb[i], i ^ 1, c, r + 4 + i); }
        MPI_Waitall(8, r, MPI_STATUSES_IGNORE);
        for (int i = 0; i < n; i++) s += u[i];
        MPI_Allreduce(&s, &t, 1, MPI_DOUBLE, MPI_SUM, c);
    }
}
