/*
 * forks: every rank forks children for ever, which call visit() and end; counts those that end in
 * any other way than that.
 */
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

volatile int visited, cycles, failures;

void visit(int n)
{
    visited = n; /* @visit */
}

void finished(void)
{
    visited = -1; /* @finished */
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    for (;;) {
        pid_t child = fork();
        int how = 0;

        if (child == 0) {
            visit(cycles);
            _exit(7);
        }
        if (child < 0 || waitpid(child, &how, 0) != child || !WIFEXITED(how) ||
            WEXITSTATUS(how) != 7)
            failures++;
        cycles++;
        if (cycles % 250 == 0)
            finished();
    }
}
