/*
 * missing_collective: let a gas stream into a box and report its mean energy.
 *
 * The box is cut into slabs, one per rank; the gas comes in from the left, and the slab of the last
 * rank is still empty.  In every step each rank moves its particles, then all ranks work out the
 * mean energy of all particles and rank 0 prints it.  Needs 2 ranks or more.
 */
#define OMPI_SKIP_MPICXX 1 // mpi.h of Open MPI 4 warns in its old C++ interface, unused here
#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <vector>

struct Particle {
    double position;
    double velocity;
};

class Gas {
public:
    explicit Gas(std::size_t count, double left)
    {
        for (std::size_t i = 0; i < count; ++i) {
            double offset = static_cast<double>(i) / static_cast<double>(count);
            particles_.push_back({left + offset, offset - 0.5});
        }
    }

    void move(double dt)
    {
        for (Particle &particle : particles_)
            particle.position += dt * particle.velocity;
    }

    double mean_energy(MPI_Comm communicator) const
    {
        if (particles_.empty())
            return 0.0; // @return

        std::array<double, 2> local = {0.0, static_cast<double>(particles_.size())};
        for (const Particle &particle : particles_)
            local[0] += 0.5 * particle.velocity * particle.velocity;

        std::array<double, 2> total = {0.0, 0.0};
        MPI_Allreduce(local.data(), total.data(), 2, MPI_DOUBLE, MPI_SUM, communicator); // @reduce
        return total[0] / total[1];
    }

private:
    std::vector<Particle> particles_;
};

static void report(int rank, int step, double energy)
{
    if (rank == 0)
        std::printf("step %d: mean energy %.6f\n", step, energy);
    MPI_Barrier(MPI_COMM_WORLD); // @barrier
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv); // @main
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    const int steps = 10;
    Gas gas(rank < size - 1 ? 100 : 0, rank);
    for (int step = 0; step < steps; ++step) {
        gas.move(0.01);                                  // @step
        double energy = gas.mean_energy(MPI_COMM_WORLD); // @energy
        report(rank, step, energy);                      // @report
    }

    MPI_Finalize();
    return 0;
}
