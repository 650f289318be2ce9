/* Ranks with much to print, each with numbers of its own, in one stack of a thousand frames. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <mpi.h>

#define DEEP 1000

struct cell {
    int number;
    double weight;
    char name[16];
};

unsigned char block[8 << 20];
double numbers[1000000];
struct cell cells[20000];
volatile int rounds;

static void round_begins(void)
{
    rounds++;
}

static int descend(int depth)
{
    volatile int kept = depth;
    while (depth == 0) {
        round_begins();
        usleep(1000);
    }
    return descend(depth - 1) + kept;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (unsigned char)(rand() + rank);
    for (int i = 0; i < 1000000; i++)
        numbers[i] = 1.1 * i + rank;
    for (int i = 0; i < 20000; i++) {
        cells[i].number = i * rank;
        cells[i].weight = 1.5 * i;
        snprintf(cells[i].name, sizeof cells[i].name, "c%d", i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return descend(DEEP);
}
