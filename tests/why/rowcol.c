/* why: collective-order ranks=0-3 victims= */
#include <mpi.h>
int main(int argc, char **argv)
{
    int me, dims[2] = {2, 2}, per[2] = {0, 0}, keep[2]; double x = 1, s;
    MPI_Comm cart, row, col;
    MPI_Init(&argc, &argv);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, per, 0, &cart);
    MPI_Comm_rank(cart, &me);
    keep[0] = 0; keep[1] = 1; MPI_Cart_sub(cart, keep, &row);
    keep[0] = 1; keep[1] = 0; MPI_Cart_sub(cart, keep, &col);
    if (me == 0 || me == 3) {
        MPI_Allreduce(&x, &s, 1, MPI_DOUBLE, MPI_SUM, row);
        MPI_Allreduce(&x, &s, 1, MPI_DOUBLE, MPI_SUM, col);
    } else {
        MPI_Allreduce(&x, &s, 1, MPI_DOUBLE, MPI_SUM, col);
        MPI_Allreduce(&x, &s, 1, MPI_DOUBLE, MPI_SUM, row);
    }
    MPI_Finalize();
}
