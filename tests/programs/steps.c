/* STEPS steps, each with a residual that differs on the last rank from step 6 on; with an argument
 * the steps have no end. */
#include <mpi.h>
#include <unistd.h>
#define STEPS 40
struct state { int step; double residual; const char *phase; float half; };
struct state now;
long total;
__attribute__((noinline)) static void record(int step, int rank, int size)
{
    now.step = step;
    now.residual = 1.0 / (step + 1) + (rank == size - 1 && step > 5 ? 0.25 : 0.0);
    now.phase = step % 2 ? "odd" : "even";
    now.half = step / 2.0f;
    total += step; /* @record */
}
int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 0; step < STEPS || argc > 1; step++) {
        record(step, rank, size);
        MPI_Barrier(MPI_COMM_WORLD);
        if (argc > 1)
            usleep(1000);
    }
    MPI_Finalize(); /* @end */
    return 0;
}
