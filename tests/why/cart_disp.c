/* why: unmatched-receive ranks=3-4 victims=0-2,5 or unmatched-receive ranks=3 victims=0-2,4-5 n=6 */
#include "why.h"
/* Rank 3 takes the rank behind its right neighbour for that neighbour. */
typedef struct { MPI_Comm comm; int lo, hi; double *ghost[2], *edge; } line_t;
static void shift(line_t *l) {
    int me; MPI_Comm_rank(l->comm, &me);
    MPI_Cart_shift(l->comm, 0, 1, &l->lo, &l->hi);
    if (me == 3) { int unused; MPI_Cart_shift(l->comm, 0, 2, &unused, &l->hi); }
}
static void halo(line_t *l, int n) {
    MPI_Request r[4];
    MPI_Irecv(l->ghost[0], n, MPI_DOUBLE, l->lo, 1, l->comm, r);
    MPI_Irecv(l->ghost[1], n, MPI_DOUBLE, l->hi, 1, l->comm, r + 1);
    MPI_Isend(l->edge, n, MPI_DOUBLE, l->hi, 1, l->comm, r + 2);
    MPI_Isend(l->edge, n, MPI_DOUBLE, l->lo, 1, l->comm, r + 3);
    MPI_Waitall(4, r, MPI_STATUSES_IGNORE);
}
BODY {
    line_t l; int dims = size, no = 0; double res = 1, all;
    MPI_Cart_create(world, 1, &dims, &no, 0, &l.comm);
    for (int i = 0; i < 2; i++) l.ghost[i] = malloc(8 << 18);
    l.edge = calloc(8, 1 << 18);
    shift(&l);
    for (int it = 0; it < 10; it++) {
        halo(&l, 1 << 18);
        MPI_Allreduce(&res, &all, 1, MPI_DOUBLE, MPI_MAX, l.comm);
    }
}
