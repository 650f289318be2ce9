/*
 * storm: call hit() about every 0.3 ms, so that a breakpoint there stops the rank all the time.
 * PAUSE_NS is another time between two calls, for tests in which GDBs need not be busy all the time.
 *
 * Usage: storm [ITERATIONS [ORDERS]], ITERATIONS 0 or none for ever.  At the end rank R prints
 * "rank R done COUNT", where COUNT is the number of calls that really took place.  ORDERS is a file
 * with a byte for each rank, at which it looks before each call: 'e' and it executes this program
 * again, which goes on without MPI, 'x' and it exits, 's' and it crashes, 'f' and it forks children
 * that call hit() and end; the byte is 0 when all ended as they should, and 'F' if one did not.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef PAUSE_NS
#define PAUSE_NS 300000
#endif

long hit_count;

void hit(long i);

void hit(long i)
{
    (void)i;
    hit_count++; /* @hit */
}

static void pause_briefly(void)
{
    struct timespec left = {0, PAUSE_NS};

    while (nanosleep(&left, &left) != 0) /* @sleep */
        ;
}

static int fork_children(int count)
{
    int failures = 0;

    while (count-- > 0) {
        pid_t child = fork();
        int how = 0;

        if (child == 0) {
            hit(-1);
            _exit(7);
        }
        if (child < 0 || waitpid(child, &how, 0) != child || !WIFEXITED(how) ||
            WEXITSTATUS(how) != 7)
            failures++;
    }
    return failures;
}

static void obey(char order, int rank, char **argv)
{
    char text[16];
    char *again[] = {argv[0], argv[1], argv[2], text, NULL};

    if (order == 'e') {
        snprintf(text, sizeof text, "%d", rank);
        execv(argv[0], again);
    } else if (order == 's')
        *(volatile int *)0 = 0; /* @crash */
    exit(3);
}

int main(int argc, char **argv)
{
    int rank, file;
    long iterations = argc > 1 ? atol(argv[1]) : 0; /* @main */
    volatile char *orders = NULL;

    if (argc > 3) {
        rank = atoi(argv[3]);
    } else {
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    if (argc > 2 && (file = open(argv[2], O_RDWR)) >= 0) {
        orders = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        orders[rank] = 0;
    }

    for (long i = 0; iterations == 0 || i < iterations; i++) {
        if (orders && orders[rank] == 'f')
            orders[rank] = fork_children(100) == 0 ? 0 : 'F';
        else if (orders && orders[rank] && orders[rank] != 'F')
            obey(orders[rank], rank, argv);
        hit(i); /* @loop */
        pause_briefly();
    }

    printf("rank %d done %ld\n", rank, hit_count); /* @done */
    fflush(stdout);
    if (argc <= 3)
        MPI_Finalize();
    return 0;
}
