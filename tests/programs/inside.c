/*
 * inside: a program and a library of its own, to be run where the debugger does not see them.
 *
 * Built twice: with -DLIBRARY as libinside.so, else as the program.  Every 10 ms the program calls
 * the library.
 */
#include <time.h>

void library_pause(long step);

#ifdef LIBRARY

long last_step;

void library_pause(long step)
{
    struct timespec left = {0, 10000000}; /* @library */

    last_step = step;
    while (nanosleep(&left, &left) != 0)
        ;
}

#else

int main(void)
{
    for (long step = 0; step < 60000; step++)
        library_pause(step); /* @main */
    return 0;
}

#endif
