// Objects with all kinds of members; the ranks come to one line 1000 times.
#include <mpi.h>

struct Base {
    int inherited;
    static int shared;
};

int Base::shared = 3;

struct Part : Base {
    int count;
    union {
        int whole;
        float real;
    };
    struct {
        int deep;
    } inner;
    int size() { return count; }
};

typedef Part Renamed;

struct Pointer {
    Part *part;
    Part *operator->() { return part; }
};

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    Part part{}, many[2]{};
    Part &reference = part;
    Renamed renamed{};
    Pointer pointer{&part};
    int number = 3;
    for (int step = 0; step < 1000; step++)
        part.count += number + reference.count + pointer->count + many[1].count + renamed.count; // @step
    MPI_Finalize();
    return part.size() == number;
}
