// frames: functions with arguments that are big: classes, references, containers, long strings.
#include <mpi.h>

#include <array>
#include <map>
#include <string>
#include <vector>

struct Domain {
    double x[4000];
    std::vector<double> energy;
    Domain *next;
    int cycle;
};

enum Mode { EXPLICIT, IMPLICIT };

template <class T, int N> struct Field {
    T value[N];
};

template <class T> struct Mesh {
    std::vector<std::vector<T>> rows;
    std::map<std::string, Field<T, 3>> named;
};

template <class T, class Make>
__attribute__((noinline)) double exchange(Mesh<T> &mesh, const Make &make, int rank) {
    int value = rank;
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); // @exchange
    return make(value) + mesh.rows.size();
}

__attribute__((noinline)) double advance(Domain &domain, const Domain *other, Mesh<double> mesh,
                                         std::string name, const char *text, double (&dt)[3],
                                         Mode mode, std::array<Field<int, 2>, 2> fields, int rank) {
    double made = exchange(mesh, [&](int by) { return by * dt[0]; }, rank); // @advance
    return made + domain.x[1] + other->cycle + name.size() + text[0] + mode + fields[0].value[0];
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    Domain domain = {};
    domain.cycle = 7;
    domain.x[2] = rank;
    domain.energy = {1.5, 2.5};
    Mesh<double> mesh;
    mesh.rows = {{1, 2}, {}, {3}};
    mesh.named["heat"] = {{1, 2, 3}};
    double dt[3] = {0.5, 0.25, 0.125};
    std::string text(150, 'a');
    text += "end of the long text";
    double sum = advance(domain, &domain, mesh, "short", text.c_str(), dt, IMPLICIT, {}, rank);
    if (rank == 0) MPI_Send(&sum, 1, MPI_DOUBLE, rank, 1000, MPI_COMM_SELF); // @leaf
    MPI_Finalize();
    return 0;
}
