/* Functions that return long values, and variables to watch; the last rank differs far behind what
 * GDB prints. */
#include <map>
#include <mpi.h>
#include <string>
#include <vector>

struct Cell {
    int id;
    double x[3];
    int *next;
};

struct Field {
    double values[1000];
    int tail;
};

static int rank;
static int size;
static int is_last;
static bool is_ready;
static int flag;
static char label[400];
static Cell cell;
static Field field;
static char *words;
static double table[3000];
static long total;

#define KEPT __attribute__((noinline))

KEPT std::vector<double> vector_of(int count)
{
    std::vector<double> made(count, 2.0);

    if (is_last)
        made[count - 1] = 9;
    return made;
}

KEPT std::vector<int> long_vector(int count)
{
    std::vector<int> made(count, 7);

    if (is_last)
        made[count - 1] = 8;
    return made;
}

KEPT std::string text_of(int length)
{
    std::string made;

    for (int at = 0; at < length; at++)
        made += (char)('a' + at % 7);
    if (is_last)
        made[length - 1] = '!';
    return made;
}

KEPT Field field_of(void)
{
    Field made;

    for (int at = 0; at < 1000; at++)
        made.values[at] = at;
    made.tail = 7;
    if (is_last)
        made.values[900] = -1;
    return made;
}

KEPT const Field &reference_of(void)
{
    return field;
}

KEPT std::map<int, std::string> map_of(int count)
{
    std::map<int, std::string> made;

    for (int at = 0; at < count; at++)
        made[at] = "v";
    if (is_last)
        made[count - 1] = "w";
    return made;
}

KEPT const char *characters_of(void)
{
    return label;
}

KEPT int number_of(void)
{
    return 100 * rank;
}

int main(int argc, char **argv)
{
    static char storage[600];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    is_last = rank == size - 1;
    is_ready = argc > 100;
    for (int at = 0; at < 399; at++)
        label[at] = (char)('a' + at % 5);
    if (is_last)
        label[350] = 'Z';
    field.values[900] = is_last;
    total += (long)vector_of(1000).size(); /* @call */
    total += (long)long_vector(5000).size();
    total += (long)text_of(1000).size();
    total += field_of().tail;
    total += reference_of().tail;
    total += (long)map_of(300).size();
    total += characters_of()[0];
    total += number_of();
    total += flag + is_ready + (long)table[0];
    for (int at = 0; at < 599; at++)
        storage[at] = (char)('a' + at % 3);
    words = storage; /* @watch */
    cell.id = 3;
    cell.x[1] = is_last ? 2.5 : 1.5;
    cell.next = &rank;
    total = 5 + rank;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
