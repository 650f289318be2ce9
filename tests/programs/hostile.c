/*
 * hostile: names and texts that would drive the terminal of who debugs it.
 *
 * Usage: hostile.  It prints SEQUENCES on both streams, then calls hit() until a debugger sets `end`.
 */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

/* The title, the clipboard, a question whose answer would be typed, the screen, C1 as UTF-8 and as
 * a byte, the direction of writing: each in its own way, and with a number that nobody else has. */
#define SEQUENCES                                                                                  \
    "\033]0;7731\007\033]52;c;NzczMQ==\007\033P$q7731\033\\\033[7731A\302\2337731B"               \
    "\342\200\256txt\342\200\254\342\200\250"

volatile int end;
char text[] = SEQUENCES;
char bytes[] = "<\2337731C>";

void odd(void);
void hit(const char *said, int count);

#line 100 "evil\033]0;7731\007\033[7731A\302\2337731B\342\200\256c.c"
void odd(void)
{
}

void hit(const char *said, int count)
{
    (void)said;
    (void)count;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    fprintf(stdout, "out %s %s done\n", text, bytes);
    fprintf(stderr, "err %s %s done\n", text, bytes);
    fflush(stdout);
    for (int count = 0; !end; count++) {
        usleep(1000);
        hit(text, count);
    }
    MPI_Finalize();
    return 0;
}
