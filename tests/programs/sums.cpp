/* Containers of numbers, and references to a part of an object with a virtual base; rank 1 has
 * numbers of its own. */
#include <complex>
#include <deque>
#include <map>
#include <mpi.h>
#include <optional>
#include <string>
#include <valarray>
#include <vector>

struct Base {
    int id = 3;
    virtual ~Base() = default;
};
struct Left : virtual Base {
    double weight = 1;
};
struct Right : virtual Base {
    double height = 2;
};
struct Diamond : Left, Right {
    int count = 5;
};

static double look(const Left &left, int size)
{
    return left.id + size; /* @look */
}

int main(int argc, char **argv)
{
    int rank, size;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bool is_odd = rank == 1;
    std::deque<double> line(5000, 1.0);
    std::map<std::string, int> counts{{"left", 2}, {"right", is_odd ? 7 : 3}};
    std::valarray<double> heights(2.0, 300);
    std::optional<double> limit;
    std::vector<std::complex<double>> waves(10, {3, 4});
    std::vector<std::vector<int>> rows{{1, 2}, {}, {3}};
    std::deque<std::deque<int>> ragged{{1}, {2, is_odd ? 9 : 3}};
    std::vector<std::vector<std::deque<int>>> deep{{{1}, {2, 3}}, {{4, is_odd ? 9 : 5}, {6}}};
    typedef double four __attribute__((vector_size(32)));
    four packed = {1, 2, is_odd ? 9. : 3, 4};
    static int none[0], no_rows[3][0];
    static __int128 wide[3] = {-((__int128)1 << 90), 5, 5};
    Diamond diamond;
    Left &left = diamond;
    if (is_odd) {
        line[4321] = -5;
        heights[299] = 8;
        limit = 0.5;
        waves[7] = {6, 8};
        rows[2][0] = 30;
        diamond.id = 4;
        wide[0]--;
    }
    double found = look(left, size);
    MPI_Finalize();
    return found < 0 || wide[1] < 0 || sizeof none || sizeof no_rows || ragged.empty() || deep.empty() || packed[0] > 1 || line.empty() || !heights.size() || counts.empty() || limit == 7.0;
}
