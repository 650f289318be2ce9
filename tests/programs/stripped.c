/* Functions without symbols: built without -g, linked with an object of stripped functions, and
 * stripped. Ranks wait at different places, of the program and of a library. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef LIBRARY

/* Every function has a static counterpart that nothing but its caller knows. */
static __attribute__((noinline)) int library_left(int value, int (*call)(int))
{
    return call(value + 1) + 1;
}

static __attribute__((noinline)) int library_right(int value, int (*call)(int))
{
    return call(value + 2) + 2;
}

int library_enter(int value, int (*call)(int), int side)
{
    return side ? library_right(value, call) : library_left(value, call);
}

#else

int library_enter(int value, int (*call)(int), int side);

static volatile int done;

static __attribute__((noinline)) int wait_here(int value)
{
    while (!done)
        usleep(1000);
    return value + 3;
}

static __attribute__((noinline)) int fall(int depth)
{
    return depth > 0 ? fall(depth - 1) + depth : wait_here(depth);
}

static __attribute__((noinline)) int early(int value)
{
    return wait_here(value) + 5;
}

/* Code that is in no file: jumps to its argument's function and comes back. */
static int made_code(void)
{
#ifdef __x86_64__
    /* push %rbp; mov %rsp,%rbp; mov $1,%edi; call *%rsi; pop %rbp; ret, with %rsi the function. */
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xbf, 1,    0,    0,
                                         0,    0xff, 0xd6, 0x5d, 0xc3};
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        abort();
    for (size_t at = 0; at < sizeof code; at++)
        page[16 + at] = code[at];
    return ((int (*)(int, int (*)(int)))(page + 16))(0, wait_here);
#else
    return wait_here(1);
#endif
}

int main(int argc, char **argv)
{
    int rank, result = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    switch (rank) {
    case 0:
        result = early(rank);
        break;
    case 1:
        result = fall(9);
        break;
    case 2:
        result = library_enter(rank, wait_here, 0);
        break;
    case 3:
        result = library_enter(rank, wait_here, 1);
        break;
    default:
        result = made_code();
    }
    printf("%d\n", result);
    MPI_Finalize();
    return 0;
}

#endif
