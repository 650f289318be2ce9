// Values longer than GDB prints: one rank differs behind the part that is shown.
#include <mpi.h>
#include <cmath>
#include <deque>
#include <map>
#include <string>
#include <vector>

struct Inner {
    double cells[300];
    int id;
};
struct Outer {
    Inner inner[3];
    union {
        int as_int;
        float as_float;
    } either;
};

struct Row {
    int first;
    std::vector<int> columns;
};
struct Level {
    std::vector<float> weights;
};
struct Grid : Level {
    int cells;
    std::vector<double> values;
    double plane[60][50];
    std::deque<long> queue;
    std::vector<Row> rows;
    std::string name;
};

struct Moved {
    std::vector<double> places;
    std::vector<int> owners;
};

int main(int argc, char **argv)
{
    static Moved moved;
    static double field[1000], alike[1000], big[131072], positive[1000];
    static long counts[400];
    static char text[600];
    static long double wide[300];
    static Outer outer;
    std::vector<double> numbers(1000, 0.5);
    std::deque<int> queue;
    std::map<int, int> table;
    std::string word(500, 'x');
    static Grid grid;
    Grid *link = &grid;
    int rank, i;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (i = 0; i < 1000; i++) {
        field[i] = alike[i] = i % 7;
        positive[i] = 1 + i;
    }
    for (i = 0; i < 131072; i++)
        big[i] = i % 5;
    for (i = 0; i < 400; i++)
        counts[i] = (1L << 60) + i;
    for (i = 0; i < 300; i++) {
        wide[i] = i;
        queue.push_back(i);
        table[i] = 2 * i;
    }
    for (i = 0; i < 599; i++)
        text[i] = 'a' + i % 26;
    grid.cells = 3;
    grid.weights.assign(3000, 0.5f);
    grid.values.assign(150000, 1.5);
    grid.queue.assign(5000, 7);
    grid.rows.assign(2, Row{1, std::vector<int>(4000, 1)});
    grid.name.assign(3000, 'n');
    for (i = 0; i < 27000; i++) {
        moved.places.push_back(i + 0.5 * (rank % 2));
        moved.owners.push_back(i % 30 ? i : i + rank);
    }
    if (rank == 2) {
        moved.places[25000] = NAN;
        grid.weights[2500] = 0.25f;
        grid.values[140000] = NAN;
        grid.plane[49][7] = -4;
        grid.queue[4200] = 8;
        grid.rows[1].columns[3999] = 2;
        grid.name[2900] = 'm';
        field[500] = NAN;
        positive[700] = -1;
        big[131071] = 9;
        counts[399] += 1;
        wide[299] += 1e-18L * 299;
        text[550] = '!';
        outer.inner[2].cells[250] = 3;
        outer.inner[2].cells[251] = 4;
        outer.inner[1].cells[100] = 1;
        numbers[900] = 0.25;
        queue[280] = -1;
        table[290] = 0;
        word[450] = 'y';
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize(); // @look
    return field[0] + alike[0] + big[0] + counts[0] + text[0] + (int)wide[0] + outer.either.as_int +
           (int)positive[0] + (int)numbers[0] + (int)moved.places[0] + queue[0] + table[0] + word[0] +
           link->cells;
}
