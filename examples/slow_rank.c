/*
 * slow_rank: follow a swarm of particles; the space is cut into equal boxes, one per rank.
 *
 * In every iteration each rank moves the particles of its box through many small substeps, then all
 * ranks add up their energies.  Rank 0 prints the energy and the time of every tenth iteration.
 * Usage: slow_rank [ITERATIONS], 1000 if not given.  Needs 2 ranks or more.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTICLES_PER_BOX = 200, CLUSTER = 50, SUBSTEPS = 5000 };

struct particle {
    double x;
    double v;
};

/* The swarm is dense in the middle of the space and thin elsewhere. */
static int particles_in_box(int box, int boxes)
{
    return box == boxes / 2 ? CLUSTER * PARTICLES_PER_BOX : PARTICLES_PER_BOX;
}

static void move_particle(struct particle *particle)
{
    const double dt = 1e-4;

    for (int substep = 0; substep < SUBSTEPS; substep++) { /* @work */
        particle->v -= dt * particle->x;
        particle->x += dt * particle->v;
    }
}

static double advance_box(struct particle *particles, int count)
{
    double energy = 0.0;

    for (int i = 0; i < count; i++) {
        move_particle(&particles[i]); /* @move */
        energy += 0.5 * (particles[i].x * particles[i].x + particles[i].v * particles[i].v);
    }
    return energy;
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv); /* @main */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    int iterations = argc > 1 ? atoi(argv[1]) : 1000;
    int count = particles_in_box(rank, size); /* @count */
    struct particle *particles = calloc((size_t)count, sizeof *particles);
    if (particles == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < count; i++)
        particles[i].x = (double)i / count;

    for (int iteration = 0; iteration < iterations; iteration++) {
        double start = MPI_Wtime();
        double energy = advance_box(particles, count); /* @advance */
        double total = 0.0;
        MPI_Allreduce(&energy, &total, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); /* @reduce */
        if (rank == 0 && iteration % 10 == 0) {
            printf("iteration %d: energy %.4f, %.3f s\n", iteration, total, MPI_Wtime() - start);
            fflush(stdout);
        }
    }

    free(particles);
    MPI_Finalize();
    return 0;
}
