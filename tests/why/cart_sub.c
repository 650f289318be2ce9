/* why: communicator-mixup ranks=4 victims=0-3,5 n=6 */
#include "why.h"
BODY
{
    MPI_Comm grid, row, col; int dims[2] = {2, 3}, per[2] = {0, 0}, keep_row[2] = {0, 1}, keep_col[2] = {1, 0};
    MPI_Cart_create(world, 2, dims, per, 0, &grid);
    MPI_Cart_sub(grid, keep_row, &row);
    MPI_Cart_sub(grid, keep_col, &col);
    double v = rank, s;
    MPI_Allreduce(&v, &s, 1, MPI_DOUBLE, MPI_SUM, rank == 4 ? col : row);
    MPI_Barrier(world);
}
