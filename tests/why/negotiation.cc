// why: rank-left ranks=3 victims=0-2
#define THREADS MPI_THREAD_MULTIPLE
#include "why.h"
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
static std::mutex m; static std::condition_variable cv; static int submitted, finished; static std::atomic<bool> stop{false};
static MPI_Comm ctl;
static void background() {
    while (!stop) {
        int mine; { std::lock_guard<std::mutex> l(m); mine = submitted; }
        std::vector<int> all(size); int low = 1 << 30;
        MPI_Gather(&mine, 1, MPI_INT, all.data(), 1, MPI_INT, 0, ctl);
        if (rank == 0) for (int v : all) low = v < low ? v : low;
        MPI_Bcast(&low, 1, MPI_INT, 0, ctl);
        { std::lock_guard<std::mutex> l(m); finished = low; } cv.notify_all();
        usleep(1000);
    }
}
BODY {
    MPI_Comm_dup(world, &ctl);
    std::thread t(background);
    for (int step = 1; step <= (rank == 3 ? 2 : 5); step++) {
        std::unique_lock<std::mutex> l(m); submitted = step; cv.wait(l, [step] { return finished >= step; });
    }
    stop = true; t.join();
}
