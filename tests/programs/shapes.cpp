// shapes: structures with pointers, cycles and containers; ranks in other functions, at other depths
// of a recursion, and with other numbers of threads.
#include <map>
#include <mpi.h>
#include <pthread.h>
#include <string>
#include <vector>

struct Node {
    int value;
    Node *next;
    double *data;
};

struct Inner {
    int a[3];
    double d;
};

struct Shape {
    int rank;
    Inner inner;
    Node *list;
    Node *none;
    std::vector<int> v;
    std::map<std::string, int> m;
    std::string name;
    void (*call)(int);
};

static Shape shape;
static double numbers[4] = {1.5, 2.5, 3.5, 4.5};
static volatile int done;
static pthread_barrier_t all_begun;

static void change(int by)
{
    shape.rank += by; // @change
}

static void *work(void *)
{
    pthread_barrier_wait(&all_begun);
    pthread_barrier_wait(&all_begun); // @work
    return nullptr;
}

static int deep(int n)
{
    if (n == 0) {
        done = 1; // @deep
        return 1;
    }
    return deep(n - 1) + 1; // @call
}

static void elsewhere(int k)
{
    int doubled = 2 * k; // @elsewhere
    done = doubled;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv); // @main
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);

    shape.rank = rank;
    shape.inner = {{0, rank, 0}, 1.5};
    for (int i = 0; i < (rank == 2 ? 4 : 3); i++)
        shape.v.push_back(10 * i);
    shape.m = {{"one", 1}, {"rank", rank}};
    shape.name = "shape";
    shape.call = change;
    Node second = {2, nullptr, nullptr};
    Node first = {rank, &second, numbers};
    second.next = rank == 3 ? nullptr : &first; // a cycle on most ranks
    shape.list = &first;

    int workers = rank == 2 ? 2 : 1;
    pthread_t threads[2];
    pthread_barrier_init(&all_begun, nullptr, workers + 1);
    for (int i = 0; i < workers; i++)
        pthread_create(&threads[i], nullptr, work, nullptr);
    pthread_barrier_wait(&all_begun);
    MPI_Barrier(MPI_COMM_WORLD);

    if (rank == 1)
        elsewhere(rank);
    else
        deep(rank == 3 ? 2 : 1);

    pthread_barrier_wait(&all_begun); // @end
    for (int i = 0; i < workers; i++)
        pthread_join(threads[i], nullptr);
    MPI_Finalize();
    return 0;
}
