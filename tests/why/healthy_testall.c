/* why: healthy */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me, np, v[2] = {0}, w[2], f; MPI_Request q[4];
    MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &me); MPI_Comm_size(MPI_COMM_WORLD, &np);
    int l = (me + np - 1) % np, r = (me + 1) % np;
    for (;;) {
        MPI_Irecv(&w[0], 1, MPI_INT, l, 0, MPI_COMM_WORLD, q); MPI_Irecv(&w[1], 1, MPI_INT, r, 1, MPI_COMM_WORLD, q + 1);
        MPI_Isend(&v[0], 1, MPI_INT, r, 0, MPI_COMM_WORLD, q + 2); MPI_Isend(&v[1], 1, MPI_INT, l, 1, MPI_COMM_WORLD, q + 3);
        do MPI_Testall(4, q, &f, MPI_STATUSES_IGNORE); while (!f);
    }
}
