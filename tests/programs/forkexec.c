/*
 * forkexec: run the program of the command line as a child and exit with its status.
 */
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int how = 0;
    pid_t child = fork(); /* @main */

    if (child == 0) {
        if (argc > 1)
            execvp(argv[1], argv + 1);
        _exit(127);
    }
    while (waitpid(child, &how, 0) != child)
        ;
    return WIFEXITED(how) ? WEXITSTATUS(how) : 1;
}
