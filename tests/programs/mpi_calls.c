/*
 * mpi_calls: rank 1 stands in one call of MPI after the other, whose arguments are known.
 *
 * Four ranks.  The others wait until released = NUMBER of the call, which a debugger sets; then
 * they do their part, and rank 1 goes on to its next call.  Each call has its truth beside it:
 * FUNCTION FIELD=VALUE …, ranks in MPI_COMM_WORLD.  "sub" has the members 3, 1, 0 in this order, so
 * that its ranks have to be translated.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

volatile int released = 0; /* a debugger sets it */
volatile int current = 0;

struct halo {
    int nbr[2], tags[2], count;
    MPI_Comm comm;
};

static MPI_Comm world = MPI_COMM_NULL, sub = MPI_COMM_NULL, ring = MPI_COMM_NULL;
static MPI_Comm inter = MPI_COMM_NULL, half = MPI_COMM_NULL;
static MPI_Win window = MPI_WIN_NULL;
static int rank, size, in_sub;
static int data[4096];
static double reals[64], results[64];
static struct halo halo;

static int is_victim(void)
{
    return rank == 1;
}

/* Rank 1 begins call NUMBER at once, the others do their part when they are let. */
static void begin(int number)
{
    current = number;
    while (!is_victim() && released < number)
        usleep(1000);
}

static void exchange(struct halo *h, int side)
{
    MPI_Recv(data, h->count, MPI_INT, h->nbr[side], h->tags[side], h->comm, MPI_STATUS_IGNORE); /* @truth MPI_Recv source=0 tag=12 count=7 datatype=MPI_INT members=0-1,3 */
}

static void wrapped(int to, int tag, MPI_Comm comm)
{
    MPI_Ssend(data, 3, MPI_DOUBLE, to, tag, comm); /* @truth MPI_Ssend dest=3 tag=31 count=3 datatype=MPI_DOUBLE members=0-3 */
}

static void point_to_point(int number)
{
    MPI_Request all[3];
    MPI_Status statuses[3];
    int index, flag = 0, outcount, indices[3];

    begin(number);
    if (is_victim())
        exchange(&halo, 1);
    else if (rank == 0)
        MPI_Send(data, 7, MPI_INT, 1, 12, sub);

    begin(number + 1);
    if (is_victim())
        wrapped(size - 1, 10 * size - 9, world);
    else if (rank == 3)
        MPI_Recv(data, 3, MPI_DOUBLE, 1, 31, world, MPI_STATUS_IGNORE);

    begin(number + 2);
    if (is_victim())
        MPI_Recv(data, number + 6, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, sub, statuses); /* @truth MPI_Recv source=MPI_ANY_SOURCE tag=MPI_ANY_TAG count=7 datatype=MPI_CHAR members=0-1,3 */
    else if (rank == 3)
        MPI_Send(data, 7, MPI_CHAR, 1, 4, sub);

    begin(number + 3);
    if (is_victim())
        MPI_Sendrecv(data, 2, MPI_INT, 0, 5, data + 10, 4, MPI_INT, 2, 6, sub, statuses); /* @truth MPI_Sendrecv dest=3 source=0 tag=5 receive_tag=6 count=2 receive_count=4 datatype=MPI_INT members=0-1,3 */
    else if (rank == 3)
        MPI_Recv(data, 2, MPI_INT, 1, 5, sub, statuses);
    else if (rank == 0)
        MPI_Send(data, 4, MPI_INT, 1, 6, sub);

    begin(number + 4);
    if (is_victim())
        MPI_Probe(halo.nbr[0], 77, world, statuses); /* @truth MPI_Probe source=0 tag=77 members=0-3 */
    else if (rank == 0)
        MPI_Send(data, 1, MPI_INT, 1, 77, world);
    if (is_victim())
        MPI_Recv(data, 1, MPI_INT, 0, 77, world, statuses);

    begin(number + 5);
    if (is_victim()) {
        MPI_Irecv(data, 5, MPI_INT, 2, 8, sub, &all[0]);
        MPI_Wait(&all[0], statuses); /* @truth MPI_Wait requests=recv:0:8 */
    } else if (rank == 0) {
        MPI_Send(data, 5, MPI_INT, 1, 8, sub);
    }

    begin(number + 6);
    if (is_victim()) {
        MPI_Irecv(data, 5, MPI_INT, 0, 21, world, &all[0]);
        MPI_Issend(data + 100, 6, MPI_INT, 2, 22, world, &all[1]);
        MPI_Ibarrier(sub, &all[2]);
        MPI_Waitall(3, all, statuses); /* @truth MPI_Waitall requests=recv:0:21,send:2:22,collective waits_for=all */
    } else {
        if (rank == 0)
            MPI_Send(data, 5, MPI_INT, 1, 21, world);
        if (rank == 2)
            MPI_Recv(data, 6, MPI_INT, 1, 22, world, statuses);
        if (in_sub) {
            MPI_Ibarrier(sub, &all[0]);
            MPI_Wait(&all[0], statuses);
        }
    }

    begin(number + 7);
    if (is_victim()) {
        MPI_Irecv(data, 5, MPI_INT, 3, 41, world, &all[0]);
        MPI_Irecv(data + 64, 5, MPI_INT, 0, 42, world, &all[1]);
        MPI_Waitany(2, all, &index, statuses); /* @truth MPI_Waitany requests=recv:3:41,recv:0:42 waits_for=any */
        MPI_Waitsome(2, all, &outcount, indices, statuses);
    } else if (rank == 3) {
        MPI_Send(data, 5, MPI_INT, 1, 41, world);
    } else if (rank == 0) {
        MPI_Send(data, 5, MPI_INT, 1, 42, world);
    }

    begin(number + 8);
    if (is_victim()) {
        MPI_Recv_init(data, 5, MPI_INT, 3, 51, world, &all[0]);
        MPI_Start(&all[0]);
        MPI_Wait(&all[0], statuses); /* @truth MPI_Wait requests=recv:3:51 */
        MPI_Request_free(&all[0]);
    } else if (rank == 3) {
        MPI_Send(data, 5, MPI_INT, 1, 51, world);
    }

    begin(number + 9);
    if (is_victim()) {
        MPI_Irecv(data, 1, MPI_INT, 3, 61, world, &all[0]);
        while (!flag)
            MPI_Test(&all[0], &flag, statuses); /* @truth MPI_Test requests=recv:3:61 */
    } else if (rank == 3) {
        MPI_Send(data, 1, MPI_INT, 1, 61, world);
    }
}

static void collectives(int number)
{
    begin(number);
    if (in_sub)
        MPI_Barrier(sub); /* @truth MPI_Barrier members=0-1,3 */
    begin(number + 1);
    MPI_Bcast(data, halo.count + 2, MPI_INT, 2, world); /* @truth MPI_Bcast root=2 count=9 datatype=MPI_INT members=0-3 */
    begin(number + 2);
    if (in_sub)
        MPI_Bcast(data, 11, MPI_INT, 0, sub); /* @truth MPI_Bcast root=3 count=11 datatype=MPI_INT members=0-1,3 */
    begin(number + 3);
    MPI_Allreduce(reals, results, 13, MPI_DOUBLE, MPI_SUM, world); /* @truth MPI_Allreduce operation=MPI_SUM count=13 datatype=MPI_DOUBLE members=0-3 */
    begin(number + 4);
    MPI_Reduce(data, data + 500, 14, MPI_INT, MPI_MAX, 1, world); /* @truth MPI_Reduce root=1 operation=MPI_MAX count=14 datatype=MPI_INT members=0-3 */
    begin(number + 5);
    MPI_Gather(data, 3, MPI_INT, data + 1000, 3, MPI_INT, 1, world); /* @truth MPI_Gather root=1 count=3 receive_count=3 datatype=MPI_INT members=0-3 */
    begin(number + 6);
    MPI_Alltoall(data, 2, MPI_INT, data + 1000, 2, MPI_INT, world); /* @truth MPI_Alltoall count=2 receive_count=2 datatype=MPI_INT members=0-3 */
    begin(number + 7);
    if (in_sub)
        MPI_Allgather(data, 4, MPI_INT, data + 1000, 4, MPI_INT, sub); /* @truth MPI_Allgather count=4 receive_count=4 datatype=MPI_INT members=0-1,3 */
    begin(number + 8);
    MPI_Exscan(reals, results, 4, MPI_DOUBLE, MPI_MIN, ring); /* @truth MPI_Exscan operation=MPI_MIN count=4 datatype=MPI_DOUBLE members=0-3 name=ring */
    begin(number + 9);
    MPI_Neighbor_alltoall(data, 1, MPI_INT, data + 100, 1, MPI_INT, ring); /* @truth MPI_Neighbor_alltoall count=1 receive_count=1 datatype=MPI_INT members=0-3 name=ring */
    begin(number + 10);
    MPI_Barrier(inter); /* @truth MPI_Barrier members=0-1 remote=2-3 */
    begin(number + 11);
    if (is_victim())
        MPI_Recv(data, 1, MPI_INT, 1, 3, inter, MPI_STATUS_IGNORE); /* @truth MPI_Recv source=3 tag=3 count=1 datatype=MPI_INT members=0-1 remote=2-3 */
    else if (rank == 3)
        MPI_Send(data, 1, MPI_INT, 1, 3, inter);
}

static void others(int number)
{
    MPI_Comm made = MPI_COMM_NULL;

    begin(number);
    MPI_Comm_split(world, rank % 2, rank, &made); /* @truth MPI_Comm_split members=0-3 */
    MPI_Comm_free(&made);
    begin(number + 1);
    if (in_sub)
        MPI_Comm_dup(sub, &made); /* @truth MPI_Comm_dup members=0-1,3 */
    begin(number + 2);
    MPI_Win_fence(0, window); /* @truth MPI_Win_fence window=0-3 */
    begin(number + 3);
    MPI_Win_free(&window); /* @truth MPI_Win_free window=0-3 */
}

static void make(void)
{
    int members[3] = {3, 1, 0}, extent, period = 1;
    MPI_Group all, some;

    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_group(world, &all);
    MPI_Group_incl(all, 3, members, &some);
    MPI_Comm_create(world, some, &sub);
    in_sub = sub != MPI_COMM_NULL;
    extent = size;
    MPI_Cart_create(world, 1, &extent, &period, 0, &ring);
    MPI_Comm_set_name(ring, "ring");
    MPI_Comm_split(world, rank / 2, rank, &half);
    MPI_Intercomm_create(half, 0, world, rank < 2 ? 2 : 0, 9, &inter);
    MPI_Win_create(data, sizeof data, sizeof(int), MPI_INFO_NULL, world, &window);
    halo.nbr[0] = 0, halo.nbr[1] = 2;
    halo.tags[0] = 11, halo.tags[1] = 12;
    halo.count = 7;
    halo.comm = sub;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 4)
        MPI_Abort(MPI_COMM_WORLD, 1);
    make();
    point_to_point(1);
    collectives(11);
    others(23);
    MPI_Finalize();
    return 0;
}
