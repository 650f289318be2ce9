// Rank 0 ends by an exception that nobody catches.
#include <mpi.h>
#include <stdexcept>

class Broken : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

static void check(int rank)
{
    if (rank == 0)
        throw Broken("no grid left"); // @throw
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
