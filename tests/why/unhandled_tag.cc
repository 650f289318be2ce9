// why: waits-for-busy-rank|unmatched-receive|missing-from-collective ranks=0 victims=1-3
#include "why.h"
#include <functional>
#include <map>
// The server has no handler for one tag, and its probe finds that message again and again.
class Server {
    std::map<int, std::function<void(int, int)>> handlers;
    int open = 0;
public:
    void on(int tag, std::function<void(int, int)> f) { handlers[tag] = std::move(f); }
    void run(int clients) {
        for (open = clients; open > 0;) {
            int flag; MPI_Status s;
            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, world, &flag, &s);
            if (!flag) continue;
            auto h = handlers.find(s.MPI_TAG);
            if (h == handlers.end()) continue;
            int v; MPI_Recv(&v, 1, MPI_INT, s.MPI_SOURCE, s.MPI_TAG, world, MPI_STATUS_IGNORE);
            h->second(s.MPI_SOURCE, v);
        }
    }
    void close() { open--; }
};
BODY {
    if (rank == 0) {
        Server s;
        s.on(1, [](int who, int v) { v++; MPI_Send(&v, 1, MPI_INT, who, 2, world); });
        s.on(9, [&](int, int) { s.close(); });
        s.run(size - 1);
    } else {
        int v = rank, tag = rank == 3 ? 5 : 1;
        MPI_Send(&v, 1, MPI_INT, 0, tag, world);
        MPI_Recv(&v, 1, MPI_INT, 0, 2, world, IGNORE);
        MPI_Send(&v, 1, MPI_INT, 0, 9, world);
    }
    MPI_Barrier(world);
}
