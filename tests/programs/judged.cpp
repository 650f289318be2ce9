/* judged: containers, wrappers and strings that a condition compares; rank 1 differs in each. */
#include <atomic>
#include <bitset>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mpi.h>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

struct Base {
    int id;
};
struct Derived : Base {
    int id;
};

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const bool odd = rank == 1;
    std::map<std::pair<int, int>, double> edges{{{1, 2}, 0.5}, {{3, 4}, odd ? 9.5 : 1.5}};
    std::map<std::string, std::vector<int>> lists{{"a", {}}, {"b", {1, odd ? 9 : 2}}};
    std::optional<std::vector<int>> some{std::vector<int>{1, odd ? 9 : 2}};
    std::variant<int, std::vector<int>> either{std::vector<int>{1, odd ? 9 : 2}};
    std::deque<std::deque<int>> rows{{1}, {2, odd ? 9 : 3}};
    std::vector<int> few(odd ? 1 : 0, 9);
    std::bitset<70> bits;
    bits[69] = odd;
    std::atomic<int> count{odd ? 9 : 2};
    std::chrono::milliseconds pause{odd ? 9 : 2};
    __int128 wide = odd ? (__int128)9 << 70 : 5;
    std::string name = odd ? "nine" : "two";
    const char *text = odd ? nullptr : "two";
    char buffer[16] = "two";
    if (odd)
        strcpy(buffer, "nine");
    std::map<std::string, std::string> words{{"k", name}};
    std::shared_ptr<Derived> shared{new Derived{{odd ? 9 : 2}, 7}};
    auto found = lists.find("b");
    MPI_Barrier(MPI_COMM_WORLD); // @look
    MPI_Finalize();
    return few.size() > 1 || text == buffer || count == wide || found == lists.end();
}
