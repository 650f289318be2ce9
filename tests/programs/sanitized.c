/* Each rank makes the errors that its argument names, and then waits for the others.
 *
 * s: a shift by 40 + rank; o: a sum that is too large; h: a read behind memory of the heap; r: the
 * same by memcpy. w waits until a debugger sets "go". */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank;
static volatile int go;

static __attribute__((noinline)) int shift(int n)
{
    return 1 << n; /* @shift */
}

static __attribute__((noinline)) int add(int n)
{
    return INT_MAX + n; /* @add */
}

static __attribute__((noinline)) int behind(const int *values, int n)
{
    return values[n]; /* @behind */
}

static __attribute__((noinline)) int copy(const int *values, int n)
{
    int copied[8];

    memcpy(copied, values, n * sizeof *values); /* @copy */
    return copied[0];
}

int main(int argc, char **argv)
{
    int *values = calloc(4, sizeof *values), sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (const char *each = argc > 1 ? argv[1] : ""; *each; ++each) {
        if (*each == 's')
            sum += shift(40 + rank) & 1;
        if (*each == 'o')
            sum += add(1 + rank) < 0;
        if (*each == 'h')
            sum += behind(values, 4);
        if (*each == 'w') {
            while (!go)
                usleep(1000);
            go = 0;
        }
        if (*each == 'r')
            sum += copy(values, 5);
    }
    free(values);
    MPI_Barrier(MPI_COMM_WORLD); /* @wait */
    printf("%s\n", sum < -9 ? "less" : "done");
    MPI_Finalize();
    return 0;
}
