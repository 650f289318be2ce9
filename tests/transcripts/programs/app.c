#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct point {
    double x, y;
};

struct cell {
    int id;
    char name[12];
    struct point at;
    int values[8];
    const char *label;
    struct cell *next;
    union {
        int i;
        float f;
    } both;
    unsigned flags : 3;
};

static struct cell first = {1, "n\303\244me", {0.5, -2.25e3}, {1, 2, 2, 2, 2, 2, 2, 9}, "a \"b\"\n", 0, {7}, 5};
static volatile int round_number;
static pthread_barrier_t ready;

static int add(const struct cell *cell, int depth, double factor)
{
    if (depth > 0)
        return add(cell, depth - 1, factor * 2) + 1;
    return cell->values[0] + (int)factor; /* @deepest */
}

static void *work(void *argument)
{
    pthread_barrier_wait(&ready);
    for (;;)
        pause();
    return argument;
}

static void wait_for_somebody(void)
{
    for (;;)
        usleep(1000); /* @waiting */
}

int main(int argc, char **argv)
{
    pthread_t thread;
    const char *how = argc > 1 ? argv[1] : "";
    pthread_barrier_init(&ready, NULL, 2);
    pthread_create(&thread, NULL, work, NULL);
    pthread_barrier_wait(&ready);
    first.next = &first;
    for (int i = 0; i < 3; i++)
        round_number = add(&first, 3, i); /* @loop */
    printf("round %d\n", round_number);
    fflush(stdout);
    if (strcmp(how, "wait") == 0)
        wait_for_somebody();
    if (strcmp(how, "crash") == 0)
        *(volatile int *)8 = 1; /* @crash */
    return 42;
}
