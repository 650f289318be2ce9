/* Once a file is there, waits in vfork(2) until the child has read a byte from a pipe. */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct timespec pause = {0, 10000000};
    char byte;
    int waits = argc > 2;

    for (;;) {
        nanosleep(&pause, NULL);
        if (waits && access(argv[1], F_OK) == 0) {
            waits = 0;
            if (vfork() == 0) {
                int file = open(argv[2], O_RDONLY);

                _exit(read(file, &byte, 1) != 1);
            }
        }
    }
}
