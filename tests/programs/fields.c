/* fields: structures, arrays, strings and numbers that are nearly the same on all ranks.
 *
 * What differs, and where: x[1] is NaN on the last rank, energy is infinite on rank 0, the name
 * and the colour differ between even and odd ranks, table is 7 in one place on rank 1. */
#include <math.h>
#include <mpi.h>
#include <string.h>

enum colour { RED, GREEN, BLUE };
enum flags { FAST = 1, SAFE = 2, LOUD = 4 };

struct point {
    double x, y;
};

struct particle {
    int id;
    double x[3];
    char name[16];
    const char *label;
    enum colour colour;
    enum flags flags;
    unsigned is_ghost : 1;
    unsigned kind : 3;
    struct point corner[2];
    union {
        int count;
        float weight;
    };
    struct particle *next;
    void (*move)(struct particle *);
};

static int grid[4][3];
static int table[1000];

static void move(struct particle *particle)
{
    particle->x[0] += 1.0;
}

static double look(struct particle *particle, int step)
{
    double energy = step ? 1.5 : HUGE_VAL;
    int same = 42;
    double local = 1.5 * step;
    const char *text = "all alike";
    move(particle);
    return energy + same + local + (double)strlen(text); /* @look */
}

int main(int argc, char **argv)
{
    int rank, size;
    struct particle particle;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    memset(&particle, 0, sizeof particle);
    particle.id = 5;
    particle.x[1] = rank == size - 1 ? NAN : 2.5;
    strcpy(particle.name, rank % 2 ? "odd" : "even");
    particle.label = "a particle";
    particle.colour = rank % 2 ? BLUE : GREEN;
    particle.flags = FAST | LOUD;
    particle.kind = 5;
    particle.corner[1].y = -1.0;
    particle.count = 3;
    particle.next = &particle;
    particle.move = move;
    grid[2][1] = rank;
    if (rank == 1)
        table[500] = 7;
    double result = look(&particle, rank);
    MPI_Finalize();
    return result < 0;
}
