/* Sends itself a signal inside an inlined function, twice. */
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

static volatile int number, got;

static inline __attribute__((always_inline)) int inlined(int value)
{
    number += value; /* @inlined */
    kill(getpid(), SIGUSR1);
    number *= 2;
    return number;
}

static void handler(int signal)
{
    got += signal;
}

static __attribute__((noinline)) void nothing(void)
{
    number++; /* @nothing */
}

static __attribute__((noinline)) int outer(int value)
{
    int result = inlined(value);

    nothing();
    return result + number;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    signal(SIGUSR1, handler);
    number = outer(3);
    number = outer(4);
    MPI_Finalize();
    return 0;
}
