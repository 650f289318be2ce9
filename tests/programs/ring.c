/*
 * ring: pass a value around a ring of ranks, for ever or for some steps.
 *
 * Usage: ring [STEPS [EXIT_CODE]]; STEPS 0 or none means for ever.  After the last step every rank
 * calls MPI_Finalize and exits with EXIT_CODE (0 if not given).
 *
 * What a debugger sees, on rank r: local = 1.5 r, data[i] = 10 r + i, particle.id = r,
 * particle.name "even" or "odd".  Call path: main -> advance -> exchange.
 */
#include <mpi.h>
#include <stdlib.h>
#include <unistd.h>

struct particle {
    double x[3];
    int id;
    const char *name;
};

static double exchange(int rank, int size, double local)
{
    int left = (rank + size - 1) % size;
    int right = (rank + 1) % size;
    double received = -1.0;

    MPI_Sendrecv(&local, 1, MPI_DOUBLE, right, 7, &received, 1, MPI_DOUBLE, left, 7, /* @send */
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return received; /* @recv */
}

static void advance(int rank, int size, double local, double *data, struct particle *particle)
{
    double received = exchange(rank, size, local); /* @advance */

    particle->x[0] += 1.0;
    particle->x[1] = received;
    data[7] = 10.0 * rank + 7.0;
    usleep(1000); /* @sleep */
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    long steps = argc > 1 ? atol(argv[1]) : 0;
    int exit_code = argc > 2 ? atoi(argv[2]) : 0;
    double local = 1.5 * rank;
    double data[8];
    struct particle particle = {{0.0, 0.0, 0.5 * rank}, rank, rank % 2 == 0 ? "even" : "odd"};

    for (int i = 0; i < 8; i++)
        data[i] = 10.0 * rank + i;

    for (long step = 0; steps == 0 || step < steps; step++) {
        advance(rank, size, local, data, &particle); /* @step */
    }

    MPI_Finalize(); /* @finalize */
    return exit_code;
}
