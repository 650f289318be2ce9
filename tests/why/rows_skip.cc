// why: missing-from-collective|collective-order ranks=5 victims=0-4,6-7 n=8
#include "why.h"
struct Grid { MPI_Comm row, col; Grid() { MPI_Comm_split(world, rank / 4, rank, &row); MPI_Comm_split(world, rank % 4, rank, &col); } };
static double sum(double v, MPI_Comm c) { double s; MPI_Allreduce(&v, &s, 1, MPI_DOUBLE, MPI_SUM, c); return s; }
BODY {
    Grid g; double load = rank == 5 ? 0 : 1;
    for (int step = 0; step < 3; step++) {
        if (load > 0 || step < 1) sum(load, g.row);
        sum(load, g.col);
    }
    MPI_Barrier(world);
}
