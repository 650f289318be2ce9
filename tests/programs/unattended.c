/* A job that nobody watches; the argument says what happens to it.
 *
 * "recv": rank 0 waits for a message that nobody sends, the others in a barrier. "leave": rank 0 waits
 * in MPI_Finalize for the others, which wait for its message. "test": every rank
 * waits in a loop of MPI_Test. "sleep": every rank sleeps. "compute": every rank computes without a
 * word, until the file of the next argument is there. "exchange": the same with messages. "copy": rank 0 copies its input to its
 * output. "flood": rank 0 writes as many MiB as the next argument says. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile double sink;

static void compute(const char *until)
{
    while (access(until, F_OK))
        for (int k = 0; k < 100000; k++)
            sink += k * 0.5;
}

static void exchange(const char *until, int rank, int size)
{
    int goes_on = 1, got;

    while (goes_on) {
        MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 3, &got, 1, MPI_INT,
                     (rank + size - 1) % size, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        goes_on = access(until, F_OK) != 0;
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
}

static void copy(void)
{
    char piece[4096];
    ssize_t count;

    while ((count = read(0, piece, sizeof piece)) > 0)
        if (write(1, piece, (size_t)count) != count)
            abort();
}

static void flood(long mebibytes)
{
    static char piece[1 << 20];

    for (size_t at = 0; at < sizeof piece; at++)
        piece[at] = (char)(at % 251);
    for (long at = 0; at < mebibytes; at++)
        fwrite(piece, 1, sizeof piece, stdout);
    fflush(stdout);
}

static void *rest(void *nothing)
{
    sleep(1000);
    return nothing;
}

static void leave_a_thread(void)
{
    pthread_t thread;

    pthread_create(&thread, NULL, rest, NULL);
    syscall(SYS_exit, 0);
}

static void read_a_pipe(void)
{
    int ends[2];
    char letter;

    if (!pipe(ends) && read(ends[0], &letter, 1) == 1) /* @pipe */
        write(ends[1], &letter, 1);
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    int rank, size, value = 0, done = 0;
    MPI_Request request;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(kind, "recv") && !rank)
        MPI_Recv(&value, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE); /* @recv */
    if (!strcmp(kind, "leave")) {
        if (rank)
            MPI_Recv(&value, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Finalize();
        return 0;
    }
    if (!strcmp(kind, "test")) {
        MPI_Irecv(&value, 1, MPI_INT, (rank + 1) % size, 9, MPI_COMM_WORLD, &request);
        while (!done)
            MPI_Test(&request, &done, MPI_STATUS_IGNORE); /* @test */
    }
    if (!strcmp(kind, "thread") && !rank)
        leave_a_thread();
    if (!strcmp(kind, "quit") && !rank)
        syscall(SYS_exit_group, 4);
    if (!strcmp(kind, "pipe") && !rank)
        read_a_pipe();
    if (!strcmp(kind, "sleep"))
        sleep(1000); /* @sleep */
    if (!strcmp(kind, "compute"))
        compute(argv[2]);
    if (!strcmp(kind, "exchange"))
        exchange(argv[2], rank, size);
    if (!strcmp(kind, "copy") && !rank)
        copy();
    if (!strcmp(kind, "flood") && !rank)
        flood(atol(argv[2]));
    MPI_Barrier(MPI_COMM_WORLD); /* @barrier */
    MPI_Finalize();
    return 0;
}
