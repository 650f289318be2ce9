/*
 * many_cores: leaves core files of a job's ranks, in directories r0, r1 and so on, without a launcher.
 *
 * Usage: many_cores COUNT
 *
 * Each rank is a process with the environment that Open MPI gives to a rank, and dies in die.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct cell {
    int step;
};

static void die(struct cell *cell)
{
    int *nowhere = NULL;

    *nowhere = cell->step; /* @die */
}

static int leave(int rank, char *program, const char *count)
{
    char number[32], folder[33];
    int status = 0;
    pid_t child;

    snprintf(number, sizeof number, "%d", rank);
    snprintf(folder, sizeof folder, "r%s", number);
    setenv("OMPI_COMM_WORLD_RANK", number, 1);
    setenv("OMPI_COMM_WORLD_SIZE", count, 1);
    setenv("PMIX_NAMESPACE", "717", 1);
    if (mkdir(folder, 0777))
        return 1;
    child = fork();
    if (!child) {
        if (chdir(folder))
            _exit(1);
        execl(program, program, (char *)NULL);
        _exit(1);
    }
    return waitpid(child, &status, 0) != child || !WIFSIGNALED(status);
}

int main(int argc, char **argv)
{
    struct cell cell = {10};
    struct rlimit limit;

    if (argc > 1) {
        for (int rank = 0; rank < atoi(argv[1]); rank++)
            if (leave(rank, argv[0], argv[1]))
                return 1;
        return 0;
    }
    getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_CORE, &limit);
    cell.step += atoi(getenv("OMPI_COMM_WORLD_RANK"));
    die(&cell); /* @main */
    return 0;
}
