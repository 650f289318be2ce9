/*
 * cores: each rank leaves a core file in a directory of its own, r0, r1 and so on, below the working
 * directory. The job itself ends with status 0.
 *
 * Usage: cores [WITHOUT]: the rank WITHOUT leaves none.
 *
 * A child of each rank dies, which has the memory and the environment of its rank: a launcher would
 * end the other ranks when it sees the first one die.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct cell {
    int step;
    double mass[4];
};

double field[1000];

static void die(int rank, struct cell *cell)
{
    int *nowhere = NULL;

    if (rank == 3)
        abort(); /* @abort */
    *nowhere = cell->step; /* @die */
}

static void compute(int rank, struct cell *cell)
{
    die(rank, cell); /* @compute */
}

int main(int argc, char **argv)
{
    struct cell cell = {10, {0.0, 1.5, 3.0, 4.5}};
    struct rlimit limit;
    char name[32];
    int rank, status = 0;
    pid_t child;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(name, sizeof name, "r%d", rank);
    if (mkdir(name, 0777) || chdir(name))
        return 1;
    cell.step += rank;
    cell.mass[1] += rank == 2;
    for (int index = 0; index < 1000; index++)
        field[index] = index + 1000.0 * rank;
    child = argc > 1 && atoi(argv[1]) == rank ? 0 : fork();
    if (!child && !(argc > 1 && atoi(argv[1]) == rank)) {
        getrlimit(RLIMIT_CORE, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_CORE, &limit);
        compute(rank, &cell); /* @main */
    }
    if (child > 0)
        waitpid(child, &status, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
