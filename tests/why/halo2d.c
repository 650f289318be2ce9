/* why: unmatched-receive ranks=3 victims=0-2,4-5 n=6 */
#include <mpi.h>
#include <stdlib.h>
typedef struct { MPI_Comm cart; int up, down, left, right, nx, ny; double *u; } grid_t;
enum { TAG_N = 10, TAG_S, TAG_W, TAG_E };
static void exchange(grid_t *g, int step)
{
    MPI_Request r[8]; int n = 0, me;
    MPI_Comm_rank(g->cart, &me);
    double *u = g->u; int nx = g->nx, ny = g->ny;
    MPI_Irecv(u, nx, MPI_DOUBLE, g->up, TAG_S, g->cart, &r[n++]);
    MPI_Irecv(u + nx * (ny - 1), nx, MPI_DOUBLE, g->down, TAG_N, g->cart, &r[n++]);
    MPI_Irecv(u + nx, nx, MPI_DOUBLE, g->left, TAG_E, g->cart, &r[n++]);
    MPI_Irecv(u + 2 * nx, nx, MPI_DOUBLE, g->right, TAG_W, g->cart, &r[n++]);
    MPI_Isend(u + 3 * nx, nx, MPI_DOUBLE, g->up, TAG_N, g->cart, &r[n++]);
    MPI_Isend(u + 4 * nx, nx, MPI_DOUBLE, g->down, me == 1 && step == 3 ? TAG_W : TAG_S, g->cart, &r[n++]);
    MPI_Isend(u + 5 * nx, nx, MPI_DOUBLE, g->left, TAG_W, g->cart, &r[n++]);
    MPI_Isend(u + 6 * nx, nx, MPI_DOUBLE, g->right, TAG_E, g->cart, &r[n++]);
    MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
}
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int dims[2] = {3, 2}, per[2] = {0, 0};
    grid_t g = { .nx = 16, .ny = 16 };
    g.u = calloc(16 * 16, sizeof *g.u);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, per, 0, &g.cart);
    MPI_Cart_shift(g.cart, 0, 1, &g.up, &g.down);
    MPI_Cart_shift(g.cart, 1, 1, &g.left, &g.right);
    for (int step = 0; step < 10; step++) {
        double res = 1, all;
        exchange(&g, step);
        MPI_Allreduce(&res, &all, 1, MPI_DOUBLE, MPI_MAX, g.cart);
    }
    MPI_Finalize();
}
