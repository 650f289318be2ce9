/*
 * out_of_bounds: set up a field of rows, cut into one block of rows per rank, with halo rows.
 *
 * The rows are dealt out evenly and the last rank takes those that are left over.  A block has one
 * halo row above and one below its own rows; both are filled from the neighbours.  Rank 0 prints
 * the sum of the first column.  The memory of a block lies between guard pages, so that an access
 * outside of it is seen at once.  Needs 2 ranks or more.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <sys/mman.h>

enum { COLUMNS = 1024, ROWS_PER_RANK = 64, ROWS_LEFT_OVER = 8 };

static const size_t GUARD_BYTES = 1 << 20;

struct block {
    double (*row)[COLUMNS]; /* row[0] and row[rows + 1] are the halo */
    int rows;
};

static int my_rows(int rank, int size)
{
    return rank == size - 1 ? ROWS_PER_RANK + ROWS_LEFT_OVER : ROWS_PER_RANK;
}

static double (*allocate_rows(int rows))[COLUMNS]
{
    size_t bytes = (size_t)rows * COLUMNS * sizeof(double); /* whole pages: a row is 8 KB */
    char *memory = mmap(NULL, bytes + 2 * GUARD_BYTES, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED || mprotect(memory + GUARD_BYTES, bytes, PROT_READ | PROT_WRITE) != 0)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return (double (*)[COLUMNS])(memory + GUARD_BYTES);
}

static void fill(struct block *block, int rank)
{
    for (int i = 1; i <= block->rows; i++)
        for (int j = 0; j < COLUMNS; j++)
            block->row[i][j] = rank + 1; /* @write */
}

static void exchange_halo(struct block *block, int rank, int size)
{
    int above = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int below = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    int last = block->rows;

    MPI_Sendrecv(block->row[1], COLUMNS, MPI_DOUBLE, above, 0, /* @exchange */
                 block->row[last + 1], COLUMNS, MPI_DOUBLE, below, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(block->row[last], COLUMNS, MPI_DOUBLE, below, 1, block->row[0], COLUMNS,
                 MPI_DOUBLE, above, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    struct block block = {.rows = my_rows(rank, size)};
    block.row = allocate_rows(ROWS_PER_RANK + 2); /* @allocate */
    double sum = 0.0, total = 0.0;
    fill(&block, rank); /* @fill */
    exchange_halo(&block, rank, size);
    for (int i = 1; i <= block.rows; i++)
        sum += block.row[i][0];
    MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD); /* @reduce */

    if (rank == 0)
        printf("sum of the first column: %.1f\n", total);
    MPI_Finalize();
    return 0;
}
