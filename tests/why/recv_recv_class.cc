/* why: cycle ranks=0-1 victims=2-3 */
#include "why.h"
#include <vector>

class Exchange {
public:
    explicit Exchange(int peer) : peers_(1, peer) {}
    void run() { MPI_Recv(&value_, 1, MPI_INT, peers_.front(), tag_++, world, IGNORE); }

private:
    std::vector<int> peers_;
    int tag_ = 11;
    int value_ = 0;
};

BODY
{
    if (rank < 2)
        Exchange(1 - rank).run();
    MPI_Barrier(world);
}
