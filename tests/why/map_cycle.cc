// why: cycle ranks=0-2 victims=3-4 n=5
#include <mpi.h>
#include <vector>
#include <map>
namespace net {
struct endpoint { MPI_Comm c; int me, np; endpoint() : c(MPI_COMM_WORLD) { MPI_Comm_rank(c, &me); MPI_Comm_size(c, &np); } };
template <class T> T receive(const endpoint &e, int from, int tag = 0) { T v; MPI_Recv(&v, sizeof v, MPI_BYTE, from, tag, e.c, MPI_STATUS_IGNORE); return v; }
template <class T> void send(const endpoint &e, const T &v, int to, int tag = 0) { MPI_Send(&v, sizeof v, MPI_BYTE, to, tag, e.c); }
}
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    net::endpoint e; std::map<int, int> next{{0, 1}, {1, 2}, {2, 0}};
    if (next.count(e.me)) { int v = net::receive<int>(e, next[e.me], 4); net::send(e, v, (e.me + 2) % 3, 4); }
    MPI_Barrier(e.c);
    MPI_Finalize();
}
