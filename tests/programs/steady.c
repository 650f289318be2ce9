/* A program that computes for minutes, without a word and without a change that its stack shows.
 *
 * "registers": the loop keeps all that it changes in a register that no function keeps across
 * calls. "child": a process that the program has started computes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __attribute__((noinline)) double count(double from, double limit)
{
    while (from < limit)
        from += 1.0; /* @registers */
    return from;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "child"))
        return system("while kill -0 $PPID 2>/dev/null; do :; done"); /* @child */
    printf("%g\n", count(0.0, 1e13));
    return 0;
}
