// fields: values of C++ that are nearly the same on all ranks.
#include <map>
#include <mpi.h>
#include <string>
#include <vector>

struct Base {
    int id = 5;
    static int count;
};
int Base::count = 3;

struct Derived : Base {
    double weight = 2.5;
    std::string name = "common";
    std::vector<int> cells{1, 2, 3};
    std::map<std::string, int> ages{{"a", 1}, {"b, c", 2}};
};

static void look(const Derived &derived, int &step)
{
    step += (int)derived.cells.size(); // @look
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    Derived derived;
    derived.cells[1] = rank == 1 ? 9 : 2;
    if (rank == 2)
        derived.cells.push_back(4);
    look(derived, rank);
    MPI_Finalize();
    return 0;
}
