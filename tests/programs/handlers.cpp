// Ranks that end in functions which a library has called: 0 by an exception that leaves a function
// which may throw none, 1 by MPI_Abort in a handler for exceptions, 2 by exit in a handler for MPI's
// errors, 3 by an assertion of the C++ library, 4 by _exit in a function of atexit. With an argument
// the only rank calls MPI too early ("early") or too late.
#define _GLIBCXX_ASSERTIONS
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mpi.h>
#include <stdexcept>
#include <unistd.h>
#include <vector>

static volatile int sink;

__attribute__((noinline)) static void check(int rank)
{
    if (rank >= 0)
        throw std::runtime_error("no grid left"); // @throw
}

__attribute__((noinline)) static void guarded(int rank) noexcept
{
    check(rank);
}

static void on_exception()
{
    MPI_Abort(MPI_COMM_WORLD, 2); // @abort
}

static void on_error(MPI_Comm *, int *, ...)
{
    exit(6); // @exit
}

static void on_exit()
{
    _exit(8); // @_exit
}

static void die(int rank)
{
    MPI_Errhandler handler;
    std::vector<int> cells(3);

    switch (rank) {
    case 0:
        guarded(rank);
        break;
    case 1:
        std::set_terminate(on_exception);
        check(rank); // @check
        break;
    case 2:
        MPI_Comm_create_errhandler(on_error, &handler);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
        MPI_Send(&rank, 1, MPI_INT, 77, 0, MPI_COMM_WORLD); // @send
        break;
    case 3:
        sink = cells[7 + rank];
        break;
    case 4:
        std::atexit(on_exit);
        exit(0);
    }
}

int main(int argc, char **argv)
{
    int rank = 0;

    if (argc > 1 && std::strcmp(argv[1], "early") == 0)
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc > 1) {
        MPI_Finalize();
        MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    die(rank);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
