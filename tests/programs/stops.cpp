// Stops of many kinds: in a library without debug information, in threads, at caught events.

#ifdef LIBRARY

extern "C" {

volatile int total;

__attribute__((noinline)) int plain_inner(int value)
{
    total += value;
    return total;
}

__attribute__((noinline)) int plain_outer(int value)
{
    return plain_inner(value) + 1;
}

void plain_fault(volatile int *target)
{
    *target = 1;
}
}

#else

#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

extern "C" int plain_outer(int value);
extern "C" void plain_fault(volatile int *target);

static int watched;

static void work(int number)
{
    watched += number; // @work
}

static void *run(void *name)
{
    pthread_setname_np(pthread_self(), static_cast<const char *>(name));
    work(3);
    return nullptr;
}

static void events()
{
    try {
        throw std::runtime_error("an error");
    } catch (const std::exception &) {
        watched += 1; // @caught
    }
    raise(SIGUSR2);
    syscall(SYS_getppid);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, nullptr, 0);
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    signal(SIGUSR2, SIG_IGN);
    int result = plain_outer(rank); // @plain
    result += plain_outer(2);       // @again

    pthread_t thread;
    char name[16];
    std::snprintf(name, sizeof name, "worker-%d", rank);
    pthread_create(&thread, nullptr, run, name); // @thread
    pthread_join(thread, nullptr);
    work(1);

    events(); // @events
    plain_fault(nullptr); // @fault
    std::printf("%d %d\n", result, watched);
    MPI_Finalize();
    return 0;
}

#endif
