/*
 * faults: each rank faults in a way of its own: 0 by a null pointer, 1 by the member of a structure
 * at a null pointer, 2 by a call through one, 3 by a recursion without end, 4 by one in a thread, 5
 * by a variable that is larger than the stack, 6 by a write to a constant, 7 by an address where
 * nothing is, 8 by a pointer that was overwritten, 9 by a file that became shorter, 10 by a division
 * by zero, 11 by a signal that it sends itself.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

struct cell {
    double values[4];
    int count;
};

static volatile int sink;
static struct cell *volatile none;
static void (*volatile no_function)(void);
static const char constants[] = "constant";

static int recurse(int depth)
{
    volatile char room[4096];

    room[depth % 4096] = 1; /* @recursion */
    return recurse(depth + 1) + room[0];
}

static void *run(void *argument)
{
    sink = recurse(0);
    return argument;
}

static double large(long count)
{
    volatile double room[count];

    room[0] = 1; /* @large */
    return room[count / 2];
}

static void shrink(void)
{
    int file = memfd_create("field", 0);
    char *field;

    sink = ftruncate(file, 8192);
    field = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    sink = ftruncate(file, 0);
    field[5000] = 1; /* @shrunk */
}

static void die(int kind)
{
    pthread_t thread;
    volatile int zero = 0;

    switch (kind) {
    case 0:
        none->values[0] = 1;
        break;
    case 1:
        none->count++;
        break;
    case 2:
        no_function();
        break;
    case 3:
        sink = recurse(0);
        break;
    case 4:
        pthread_create(&thread, NULL, run, NULL);
        pthread_join(thread, NULL);
        break;
    case 5:
        sink = (int)large(100000000L);
        break;
    case 6:
        *(volatile char *)constants = 'C';
        break;
    case 7:
        sink = *(volatile int *)0x10000;
        break;
    case 8:
        sink = *(volatile int *)0x4141414141414141;
        break;
    case 9:
        shrink();
        break;
    case 10:
        sink = kind / zero;
        break;
    case 11:
        raise(SIGSEGV);
        break;
    }
}

int main(int argc, char **argv)
{
    int rank;
    struct rlimit limit;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = 8 << 20;
    setrlimit(RLIMIT_STACK, &limit);
    die(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
