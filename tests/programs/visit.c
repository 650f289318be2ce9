/* visit: a library for opener.c to open. A rank stays in its first visit until is_free is set. */
#include <unistd.h>

int visited;
volatile int is_free;

int visit(int n);

static void stay(int n)
{
    visited = n;
    while (!is_free)
        usleep(1000); /* @stay */
}

int visit(int n)
{
    stay(n); /* @visit */
    return n + 1;
}
