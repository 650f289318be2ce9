/*
 * place: ranks that can be stopped in one known place.
 *
 * Usage: place FILE [REST_US [STEPS]].  Every rank goes round for ever: STEPS small steps (1000 if
 * not given), then a rest of REST_US microseconds (20000 if not given, 0 for none).  FILE holds a
 * long for every rank, how often it has gone round; it is above 0 once the rank is out of MPI_Init.
 *
 * What a debugger sees, on rank r: local = 1.5 r.  Call path: main -> solve -> advance -> sweep.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile long *rounds;

static double sweep(int rank, double local, long steps)
{
    double sum = 0.0;
    long count = 0;

    for (long step = 0; step < steps; step++) {
        sum += local; /* @step */
        count += rank;
    }
    return sum + (double)count; /* @swept */
}

static double advance(int rank, double local, long steps)
{
    double swept = sweep(rank, local, steps);

    return swept / 2.0;
}

static void solve(int rank, long rest_us, long steps)
{
    double local = 1.5 * rank, total = 0.0;

    for (;;) {
        total += advance(rank, local, steps);
        rounds[rank]++; /* @round */
        if (rest_us > 0)
            usleep((useconds_t)rest_us);
    }
}

int main(int argc, char **argv)
{
    int rank, size, file;
    long rest_us = argc > 2 ? atol(argv[2]) : 20000;
    long steps = argc > 3 ? atol(argv[3]) : 1000;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 2 || (file = open(argv[1], O_RDWR)) < 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    rounds = mmap(NULL, (size_t)size * sizeof *rounds, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (rounds == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 2);
    solve(rank, rest_us, steps);
    MPI_Finalize();
    return 0;
}
