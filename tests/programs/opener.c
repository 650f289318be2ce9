/* Waits, and calls a function of a shared object that it opens once the file argv[1] is there. */
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
            steps = visit(steps);
    }
    return 0;
}
