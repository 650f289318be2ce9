// containers: each kind of the standard library; rank 1 differs in one element of each.
#include <bitset>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <mpi.h>
#include <optional>
#include <queue>
#include <set>
#include <stack>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

enum class Side { left, right };
struct Cell {
    int x;
    double y;
    bool operator<(const Cell &other) const { return x < other.x; }
};
struct Block {
    int id = 1;
    int size = 5;
};
struct Domain : Block {
    double id = 2.5;
    union {
        int count;
        unsigned bits;
    };
};

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int odd = rank == 1;
    std::map<std::string, int> ages{{"a", 1}, {"b, c", odd ? 9 : 2}, {"d", 4}};
    std::map<int, Cell> cells{{3, {1, 2}}, {5, {3, odd ? 9. : 4.}}, {-7, {5, 6}}};
    std::map<Side, std::vector<int>> sides{{Side::left, {1, odd ? 9 : 2}}, {Side::right, {3}}};
    std::map<double, int> times{{0.5, 7}, {1.5, odd ? 9 : 1}};
    std::map<Cell, int> index{{{1, 2.}, 7}, {{3, 4.}, odd ? 9 : 1}};
    std::map<char, int> letters{{'w', 7}, {'x', odd ? 9 : 1}};
    std::unordered_map<std::string, Cell> named{{"k", {odd ? 9 : 7, 8}}, {"l", {1, 1}}};
    std::multimap<int, int> pairs{{1, 2}, {1, odd ? 9 : 3}};
    std::map<std::string, std::map<int, std::vector<double>>> deep{
        {"n", {{4, {1.5, odd ? 9 : 2.5}}, {6, {}}}}, {"o", {}}};
    std::set<int> ids{4, odd ? 9 : 5};
    std::list<int> queue{7, odd ? 9 : 8};
    std::forward_list<int> free{1, odd ? 9 : 2};
    std::deque<int> steps{1, odd ? 9 : 2, 3};
    std::tuple<int, double, std::string> state{1, odd ? 9 : 2.5, "s"};
    std::pair<int, Cell> pair{1, {2, odd ? 9. : 3.}};
    std::optional<Cell> maybe{Cell{1, odd ? 9. : 2.}};
    std::variant<int, Cell> either{Cell{odd ? 9 : 1, 2}};
    std::bitset<8> flags{odd ? 7ul : 5ul};
    std::vector<bool> masks{true, odd == 1, true};
    std::vector<std::vector<int>> rows{{}, {1, odd ? 9 : 2}, {}};
    std::vector<std::string> names{"p", odd ? "nine" : "q"};
    std::stack<int> stack;
    stack.push(7);
    stack.push(odd ? 9 : 3);
    std::unique_ptr<Cell> unique{new Cell{5, odd ? 9. : 6.}};
    std::shared_ptr<Cell> shared{new Cell{5, odd ? 9. : 6.}};
    Domain domain;
    domain.Block::id = odd ? 9 : 1;
    domain.count = 5;
    MPI_Barrier(MPI_COMM_WORLD); // @look
    MPI_Finalize();
    return 0;
}
