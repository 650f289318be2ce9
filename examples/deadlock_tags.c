/*
 * deadlock_tags: smooth a periodic field that is cut into one slab per rank.
 *
 * In every step each rank swaps values with the slab below and the slab above; the first and the
 * last slab are neighbours too, over the seam.  A value that travels up has TAG_UP, one that goes
 * down has TAG_DOWN.  After the step all ranks agree on how much the field still changes.
 * Needs 2 ranks or more.
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>

enum { TAG_UP = 1, TAG_DOWN = 2, STEPS = 50 };

struct slab {
    double value;
    double below; /* the neighbours' values, from the last exchange */
    double above;
};

static double swap_with(int peer, int send_tag, int receive_tag, double value)
{
    double received = 0.0;

    MPI_Sendrecv(&value, 1, MPI_DOUBLE, peer, send_tag, /* @swap */
                 &received, 1, MPI_DOUBLE, peer, receive_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return received;
}

static void exchange_inside(int rank, int size, struct slab *slab)
{
    if (rank > 0)
        slab->below = swap_with(rank - 1, TAG_DOWN, TAG_UP, slab->value); /* @below */
    if (rank < size - 1)
        slab->above = swap_with(rank + 1, TAG_UP, TAG_DOWN, slab->value); /* @above */
}

static void exchange_seam(int rank, int size, struct slab *slab)
{
    if (rank == 0)
        slab->below = swap_with(size - 1, TAG_DOWN, TAG_UP, slab->value); /* @seam_first */
    else if (rank == size - 1)
        slab->above = swap_with(0, TAG_DOWN, TAG_UP, slab->value); /* @seam_last */
}

static double smooth(struct slab *slab)
{
    double old = slab->value;

    slab->value = 0.25 * slab->below + 0.5 * slab->value + 0.25 * slab->above;
    return fabs(slab->value - old);
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    struct slab slab = {.value = rank};
    double change = 0.0, largest_change = 0.0;

    for (int step = 0; step < STEPS; step++) {
        exchange_inside(rank, size, &slab); /* @step */
        exchange_seam(rank, size, &slab);   /* @seam */
        change = smooth(&slab);
        MPI_Allreduce(&change, &largest_change, 1, MPI_DOUBLE, MPI_MAX, /* @reduce */
                      MPI_COMM_WORLD);
    }

    if (rank == 0)
        printf("largest change in the last step: %g\n", largest_change);
    MPI_Finalize();
    return 0;
}
