/*
 * reexec: execute itself about every millisecond, without end, as a rank that starts others would.
 */
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec left = {0, 1000000};

    (void)argc;
    while (nanosleep(&left, &left) != 0)
        ;
    execv(argv[0], argv);
    return 1;
}
