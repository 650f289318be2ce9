/*
 * fields2d: ranks hold blocks of global arrays, and wait for a debugger in look().
 *
 * Usage: fields2d [PX [ROWS]]; the grid has PX rows of ranks (2 if not given) and size / PX columns;
 * ranks are numbered along the rows of the grid, as MPI_Cart_create has it.
 *
 * A global array G of NX x NY, G[i][j] = 100 i + j, is distributed in blocks as
 * MPI_Type_create_darray does it, so that the last blocks are smaller.  On each rank
 *   u      [nx + 2][ny + 2]  its block with a halo of 1, filled from the neighbours, -1 outside
 *   flat   the same without halo, nx * ny in a row
 *   part   its n elements of L[i] = i, 0 <= i < LENGTH, cyclic: L[rank], L[rank + size], ...
 *   fixed  [3][4], 10 rank + index
 *   big    ROWS doubles (1000 if not given), big[i] = rank + i / 1000
 *   local  1.5 rank, NaN on the last rank
 *   uneven rank + 1 elements of value rank
 */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#define NX 11
#define NY 9
#define LENGTH 22

static int fixed[3][4];
static double *big;
static long rows = 1000;

static int end_of(int n, int parts, int part)
{
    int each = (n + parts - 1) / parts;

    return part * each < n ? part * each : n;
}

static double look(double *flat, int n, double *part, int parts, double *uneven, double local)
{
    return n + parts + flat[0] + part[0] + uneven[0] + local; /* @look */
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    int px = argc > 1 ? atoi(argv[1]) : 2, py = size / px;
    int x0 = end_of(NX, px, rank / py), nx = end_of(NX, px, rank / py + 1) - x0;
    int y0 = end_of(NY, py, rank % py), ny = end_of(NY, py, rank % py + 1) - y0;
    int parts = (LENGTH - rank + size - 1) / size;
    double u[nx + 2][ny + 2];
    double *flat = malloc((nx * ny + 1) * sizeof *flat);
    double *part = malloc((parts + 1) * sizeof *part);
    double *uneven = malloc((rank + 1) * sizeof *uneven);
    double local = rank == size - 1 ? NAN : 1.5 * rank;

    if (argc > 2)
        rows = atol(argv[2]);
    big = malloc(rows * sizeof *big);
    for (long i = 0; i < rows; i++)
        big[i] = rank + i / 1000.0;
    for (int i = 0; i < nx + 2; i++)
        for (int j = 0; j < ny + 2; j++) {
            int gi = x0 + i - 1, gj = y0 + j - 1;
            int inside = gi >= 0 && gi < NX && gj >= 0 && gj < NY;
            u[i][j] = inside ? 100 * gi + gj : -1;
            if (i > 0 && i <= nx && j > 0 && j <= ny)
                flat[(i - 1) * ny + j - 1] = u[i][j];
        }
    for (int i = 0; i < parts; i++)
        part[i] = rank + i * size;
    for (int i = 0; i <= rank; i++)
        uneven[i] = rank;
    for (int i = 0; i < 12; i++)
        fixed[i / 4][i % 4] = 10 * rank + i;

    MPI_Barrier(MPI_COMM_WORLD);
    double sum = look(flat, nx * ny, part, parts, uneven, local) + u[0][0]; /* @call */
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return sum == 12345.0;
}
