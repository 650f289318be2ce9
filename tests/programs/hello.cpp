// hello (C++): every rank prints "hello from rank R of N (C++)", from a method of a template.
#define OMPI_SKIP_MPICXX 1 // mpi.h of Open MPI 4 warns in its old C++ interface, unused here
#include <mpi.h>

#include <iostream>
#include <string>
#include <vector>

template <typename Value> class Greeter {
public:
    Greeter(int rank, int size) : rank_(rank), values_(4, Value(rank)), size_(size) {}

    void greet(const std::string &language) const
    {
        std::string line = "hello from rank " + std::to_string(rank_) + " of " +
                           std::to_string(size_) + " (" + language + ")\n";
        std::cout << line << std::flush; // @print
    }

private:
    int rank_;
    std::vector<Value> values_;
    int size_;
};

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv); // @main
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    Greeter<double> greeter(rank, size);
    greeter.greet("C++"); // @greet

    MPI_Finalize(); // @finalize
    return 0;
}
