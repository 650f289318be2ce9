/*
 * hidden: run a program whose path no command line and no string of this file shows.
 *
 * "spawn" forks it, anything else executes it in this place. The path is the argument, with each
 * byte XOR 1; further arguments are the program's own.
 */
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
    int how = 0;
    pid_t child;

    if (argc < 3)
        return 2; /* @main */
    for (char *each = argv[2]; *each; each++)
        *each ^= 1;
    if (strcmp(argv[1], "spawn") != 0) {
        execv(argv[2], argv + 2);
        return 127;
    }
    if (posix_spawn(&child, argv[2], NULL, NULL, argv + 2, environ) != 0)
        return 127;
    while (waitpid(child, &how, 0) != child)
        ;
    return WIFEXITED(how) ? WEXITSTATUS(how) : 1;
}
