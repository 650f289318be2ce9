// parts: parts of answers that differ on one rank, beside parts that differ on all of them.
#include <cmath>
#include <complex>
#include <map>
#include <mpi.h>
#include <set>
#include <string>
#include <vector>

struct Cell {
    int rank = 0;
    int same = 7;
    double first[40] = {};
    double level = 1.5;
    int kind = 4;
    double last = 2.5;
};

struct Pair {
    int left;
    double right;
};

static volatile int watched;
static int global_rank;

static void change(int by)
{
    watched = by; // @change
    watched = 5;
}

static int scalar(int rank)
{
    return rank == 2 ? 9 : 4; // @scalar
}

static double by_rank(int rank)
{
    return 1.5 * rank; // @by_rank
}

static Pair pair_of(int rank)
{
    Pair pair = {3, 0.5};
    if (rank == 1)
        pair.right = NAN;
    return pair; // @pair
}

static std::vector<int> cells_of(int rank)
{
    std::vector<int> cells = {1, 2, 3};
    cells[1] = rank == 3 ? 8 : 2;
    return cells; // @cells
}

static void look(Cell &cell, int rank)
{
    std::complex<double> turn(1.0, -2.0);
    float _Complex c_turn = 1.0f + 2.0fi;
    std::set<int> members = {1, 2, 3};
    std::vector<std::vector<int>> nested = {{1}, {2, 3}};
    std::map<std::string, int> ages = {{"a", 1}, {"b", 2}};
    std::pair<int, double> both(1, 2.5);
    std::string name = "all alike";
    bool is_on = true;
    char letter = 'x';
    int mine = rank;
    double odd = rank == 1 ? INFINITY : 0.5;
    int outlier = rank == 3 ? 1 : 0;
    global_rank = rank + mine + outlier + is_on + letter; // @look
    cell.kind += (int)(odd + members.size() + nested.size() + ages.size() + both.first);
    cell.kind += (int)(turn.real() + __real__ c_turn + (double)name.size());
}

int main(int argc, char **argv)
{
    int rank;
    Cell cell;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cell.rank = rank;
    for (int i = 0; i < 40; i += 2)
        cell.first[i] = rank + i;
    cell.kind = rank == 3 ? 5 : 4;
    cell.last = rank == 2 ? NAN : 2.5;
    look(cell, rank);
    change(rank == 2 ? 3 : 1); // @call
    int total = scalar(rank);
    double part = by_rank(rank);
    Pair pair = pair_of(rank);
    std::vector<int> cells = cells_of(rank);
    global_rank = total + (int)part + pair.left + cells[0]; // @end
    MPI_Finalize();
    return 0;
}
