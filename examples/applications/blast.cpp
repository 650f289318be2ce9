// blast: a shock wave runs through a bar of several materials.
//
// The bar is cut into blocks of elements, one block for each rank. In every step each rank sends
// the energies at the ends of its block to its neighbours, the time step is agreed on by all ranks,
// and the energies flow from element to element. Energy must be conserved.
//
// Usage: blast [STEPS]
//   BLAST_FAULT       plants one fault: nan, neighbour, or halo
//   BLAST_FAULT_RANK  the rank that gets it, 1 if not given
//   BLAST_HOLD        holds every rank in the middle of the run: set var hold = 0
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace blast {

constexpr int ELEMENTS = 24;
constexpr int FAULTY_ELEMENT = 17;

struct Material {
    std::string name;
    double gamma;
    double conductivity;
};

struct Vector3 {
    double x = 0;
    double y = 0;
    double z = 0;
};

// Values with one halo element at each end: element i is values[i + 1].
template <typename T>
class Field {
public:
    Field(const char *label, int count) : values_(count + 2, T())
    {
        std::snprintf(label_, sizeof label_, "%s", label);
    }
    T &operator[](int element) { return values_[element + 1]; }
    const T &operator[](int element) const { return values_[element + 1]; }
    int count() const { return (int)values_.size() - 2; }
    T sum() const { return std::accumulate(values_.begin() + 1, values_.end() - 1, T()); }

private:
    char label_[16];
    std::vector<T> values_;
};

enum class Side { left, right };

struct Neighbour {
    int rank = MPI_PROC_NULL;
    int sends = 0;     // element that is sent
    int receives = 0;  // halo element that is received
    std::vector<double> outgoing;
    std::vector<double> incoming;
};

struct Clock {
    double time = 0;
    double step_size = 0;
    int step = 0;
    std::array<double, 4> history{};
};

class Block {
public:
    Block(int rank, int ranks, int elements)
        : rank_(rank), ranks_(ranks), first_(rank * elements), origin_{(double)first_, 0, 0}
    {
    }
    virtual ~Block() = default;

protected:
    int rank_;
    int ranks_;
    int first_;
    Vector3 origin_;
};

class Domain : public Block {
public:
    Domain(int rank, int ranks, int elements);
    void exchange();
    double choose_step() const;
    void advance(double step_size);
    void plant(const std::string &fault);
    double local_energy() const { return energy_.sum(); }
    void sum_up();
    const std::map<std::string, double> &totals() const { return totals_; }
    int step() const { return clock_.step; }

private:
    Field<double> energy_;
    Field<double> flux_;
    std::vector<Vector3> velocity_;
    std::vector<std::vector<int>> regions_;  // elements of each material; some blocks lack some
    std::vector<Material> materials_;
    std::vector<int> material_of_;
    std::map<Side, Neighbour> neighbours_;
    std::map<std::string, double> totals_;
    std::set<int> boundary_;
    std::unique_ptr<Clock> history_;
    Clock clock_;
};

Domain::Domain(int rank, int ranks, int elements)
    : Block(rank, ranks, elements),
      energy_("energy", elements),
      flux_("flux", elements),
      velocity_(elements),
      regions_(4),
      materials_{{"copper", 1.4, 0.4}, {"steel", 1.6, 0.2}, {"air", 1.4, 0.05}, {"lead", 1.5, 0.1}},
      material_of_(elements),
      history_(std::make_unique<Clock>())
{
    for (int i = 0; i < elements; i++) {
        int global = first_ + i;
        int material = global % 8 < 4 ? 0 : (rank % 2 ? 2 : 1);
        material_of_[i] = material;
        regions_[material].push_back(i);
        energy_[i] = 1.0 + 0.02 * global;
        velocity_[i] = {0.1 * global, 0, 0};
    }
    if (rank == 0)
        energy_[0] = 100.0;
    if (rank > 0)
        neighbours_[Side::left] = {rank - 1, 0, -1, {0.0}, {0.0}};
    else
        boundary_.insert(0);
    if (rank < ranks - 1)
        neighbours_[Side::right] = {rank + 1, elements - 1, elements, {0.0}, {0.0}};
    else
        boundary_.insert(elements - 1);
    totals_ = {{"energy", 0.0}, {"largest", 0.0}, {"momentum", 0.0}};
}

void Domain::exchange()
{
    std::vector<MPI_Request> requests;
    energy_[-1] = energy_[0];
    energy_[energy_.count()] = energy_[energy_.count() - 1];
    for (auto &entry : neighbours_) {
        Neighbour &neighbour = entry.second;
        neighbour.outgoing[0] = energy_[neighbour.sends];
        requests.resize(requests.size() + 2);
        MPI_Irecv(neighbour.incoming.data(), 1, MPI_DOUBLE, neighbour.rank, 7, MPI_COMM_WORLD,
                  &requests[requests.size() - 2]);
        MPI_Isend(neighbour.outgoing.data(), 1, MPI_DOUBLE, neighbour.rank, 7, MPI_COMM_WORLD,
                  &requests[requests.size() - 1]);
    }
    MPI_Waitall((int)requests.size(), requests.data(), MPI_STATUSES_IGNORE); // @exchange
    for (auto &entry : neighbours_)
        energy_[entry.second.receives] = entry.second.incoming[0];
}

double Domain::choose_step() const
{
    double fastest = 0;
    for (int i = 0; i < energy_.count(); i++)
        fastest = std::max(fastest, materials_[material_of_[i]].gamma * std::sqrt(energy_[i]));
    double mine = 5.0 / fastest, smallest;
    MPI_Allreduce(&mine, &smallest, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD); // @agree
    return std::min(smallest, 1.0);
}

void Domain::advance(double step_size)
{
    int count = energy_.count();
    // flux_[i] flows from element i - 1 to element i. Both ranks at a border compute the same flux.
    for (int i = 0; i <= count; i++)
        flux_[i] = 0.1 * step_size * (energy_[i - 1] - energy_[i]);
    for (int i = 0; i < count; i++) {
        energy_[i] += flux_[i] - flux_[i + 1];
        velocity_[i].x += 0.01 * flux_[i];
    }
    clock_.history[clock_.step % 4] = step_size;
    clock_.time += step_size;
    clock_.step_size = step_size;
    clock_.step++;
    *history_ = clock_;
}

void Domain::plant(const std::string &fault)
{
    if (fault == "nan")
        energy_[FAULTY_ELEMENT] = std::numeric_limits<double>::quiet_NaN();
    else if (fault == "neighbour" && neighbours_.count(Side::right))
        neighbours_[Side::right].rank = rank_; // the rank itself in place of the next one
    else if (fault == "halo" && neighbours_.count(Side::right))
        neighbours_[Side::right].sends--; // the last element but one
}

void Domain::sum_up()
{
    double mine[2] = {energy_.sum(), 0}, all[2];
    double largest = 0;
    for (int i = 0; i < energy_.count(); i++) {
        mine[1] += velocity_[i].x;
        largest = std::max(largest, energy_[i]);
    }
    MPI_Allreduce(mine, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); // @sum
    totals_["energy"] = all[0];
    totals_["momentum"] = all[1];
    MPI_Allreduce(&largest, &totals_["largest"], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

} // namespace blast

static volatile int hold = 0;

__attribute__((noinline)) static void inspect(blast::Domain &domain)
{
    while (hold) // @hold
        usleep(10000);
    domain.sum_up(); // @inspect
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int steps = argc > 1 ? std::atoi(argv[1]) : 10;
    const char *fault = std::getenv("BLAST_FAULT");
    const char *faulty = std::getenv("BLAST_FAULT_RANK");
    hold = std::getenv("BLAST_HOLD") != nullptr;

    blast::Domain domain(rank, ranks, blast::ELEMENTS);
    domain.sum_up();
    const double expected = domain.totals().at("energy");
    for (int step = 0; step < steps; step++) {
        if (step == steps / 2) {
            if (fault && rank == (faulty ? std::atoi(faulty) : 1))
                domain.plant(fault);
            inspect(domain);
        }
        domain.exchange();
        domain.advance(domain.choose_step());
    }
    domain.sum_up();
    double energy = domain.totals().at("energy"); // @result
    if (rank == 0)
        std::printf("energy %.6f, expected %.6f: %s\n", energy, expected,
                    std::fabs(energy - expected) < 1e-6 ? "right" : "WRONG");
    MPI_Finalize();
    return 0;
}
