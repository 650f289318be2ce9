/*
 * storm: call hit() about every 0.3 ms, so that a breakpoint there stops the rank all the time.
 *
 * Usage: storm [ITERATIONS], 0 or none for ever.  At the end rank R prints "rank R done COUNT",
 * where COUNT is the number of calls that really took place.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

long hit_count;

void hit(long i);

void hit(long i)
{
    (void)i;
    hit_count++; /* @hit */
}

static void pause_briefly(void)
{
    struct timespec left = {0, 300000};

    while (nanosleep(&left, &left) != 0) /* @sleep */
        ;
}

int main(int argc, char **argv)
{
    int rank;
    long iterations = argc > 1 ? atol(argv[1]) : 0; /* @main */

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    for (long i = 0; iterations == 0 || i < iterations; i++) {
        hit(i); /* @loop */
        pause_briefly();
    }

    printf("rank %d done %ld\n", rank, hit_count); /* @done */
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
