// why: missing-from-collective ranks=1 victims=0,2-3
#include <mpi.h>
#include <future>
#include <mutex>
#include <condition_variable>
struct queue { std::mutex m; std::condition_variable c; int items = 0;
  void get() { std::unique_lock<std::mutex> l(m); c.wait(l, [this] { return items > 0; }); } };
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv); int me; MPI_Comm_rank(MPI_COMM_WORLD, &me);
    if (me == 1) { queue q; q.get(); }
    double x = me, y; MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Finalize();
}
