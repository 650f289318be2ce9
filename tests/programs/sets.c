/*
 * sets: every rank calls work() six times, which calls helper() and inner(); in the fourth call it
 * forks a child. Nothing is sent.
 */
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

static long total;

static void inner(int i)
{
    total += i; /* @inner */
}

static void helper(int i)
{
    total++; /* @helper */
    inner(i);
}

static void work(int i)
{
    int local = i; /* @work */

    local += 1;    /* @local */
    helper(local); /* @call */
    if (i == 3) {
        pid_t child = fork();

        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv); /* @main */
    for (int i = 0; i < 6; i++)
        work(i); /* @loop */
    MPI_Finalize();
    return 0;
}
