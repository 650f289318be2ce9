/*
 * opener: waits, and calls a function of a shared object once a file is there.
 *
 * Usage: opener [FILE OBJECT]. Once FILE is there it opens OBJECT and calls its visit() in every
 * step. Built with -DIN_MPI it is a rank of MPI.
 */
#ifdef IN_MPI
#include <mpi.h>
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int steps;

static int go_on(int step)
{
    usleep(1000);
    return step + 1;
}

int main(int argc, char **argv)
{
    int (*visit)(int) = 0;

#ifdef IN_MPI
    MPI_Init(&argc, &argv);
#endif
    while (steps < 1000000) {
        steps = go_on(steps);
        if (argc > 2 && !visit && access(argv[1], F_OK) == 0) {
            void *opened = dlopen(argv[2], RTLD_NOW);
            if (!opened) {
                fprintf(stderr, "%s\n", dlerror());
                return 1;
            }
            visit = (int (*)(int))dlsym(opened, "visit");
        }
        if (visit)
            steps = visit(steps); /* @call */
    }
    return 0;
}
