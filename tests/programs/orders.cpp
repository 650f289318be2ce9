/* Unordered containers with equal content, in an order of each rank's own; rank 1 has one element
 * more in the last one. */
#include <mpi.h>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

struct Domain {
    int id;
    std::unordered_set<int> ids;
};

int main(int argc, char **argv)
{
    int rank, size;
    std::unordered_set<int> ids, many, more;
    std::unordered_map<std::string, int> ages;
    std::unordered_multimap<int, int> pairs;
    std::vector<std::unordered_set<int>> rows(2);
    Domain domain = {5, {}};

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int number = 0; number < 20; number++) {
        int at = rank % 2 ? 19 - number : number;

        ids.insert(7 * at);
        more.insert(7 * at);
        domain.ids.insert(at);
        rows[1].insert(at);
        pairs.insert({3, at});
        ages[std::string(1, (char)('a' + at))] = at;
    }
    for (int number = 0; number < 300; number++)
        many.insert(rank % 2 ? 299 - number : number);
    if (rank == 1)
        more.insert(1);
    size += rank; /* @look */
    MPI_Finalize();
    return size == 0;
}
