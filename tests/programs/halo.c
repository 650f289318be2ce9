/*
 * halo: ranks in a ring smooth their numbers, with a halo exchange in each step. All have the same
 * numbers, so that the residual of a step is the same on all of them.
 *
 * Usage: halo STEPS [ODD WHEN].  In step WHEN rank ODD takes a step of another size.
 */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

#define N 8

static double u[N + 2]; /* with a halo at both ends */
static int rank, size;

static void exchange(void)
{
    MPI_Request requests[4];
    int left = (rank + size - 1) % size, right = (rank + 1) % size;

    MPI_Irecv(&u[0], 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[0]); /* @receive */
    MPI_Irecv(&u[N + 1], 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(&u[N], 1, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(&u[1], 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[3]);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE); /* @wait */
}

static double smooth(double factor)
{
    double residual = 0.0;

    for (int i = 1; i <= N; i++) {
        double change = factor * u[i];

        u[i] -= change;
        residual += fabs(change);
    }
    return residual;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    int steps = argc > 1 ? atoi(argv[1]) : 10;
    int odd = argc > 3 ? atoi(argv[2]) : -1, when = argc > 3 ? atoi(argv[3]) : -1;
    double residual = 0.0;

    for (int i = 0; i < N + 2; i++)
        u[i] = 1.0 + 1.0 / (1 + i);
    for (int step = 0; step < steps; step++) {
        double factor = 1.0 / 128;

        exchange(); /* @exchange */
        if (rank == odd && step == when)
            factor = 1.0 / 64;    /* @odd */
        residual = smooth(factor); /* @smooth */
        MPI_Barrier(MPI_COMM_WORLD); /* @hit */
    }
    MPI_Finalize(); /* @end */
    return residual < 0.0;
}
