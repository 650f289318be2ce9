/*
 * communicator_kinds: rank 1 stands in one call after the other, on communicators of all kinds.
 *
 * Four ranks; argv[1] is a file of two ints that all ranks map: the number of rank 1's call, and the
 * number of the last call at which the others do their part.  Each call has its truth beside it,
 * ranks in MPI_COMM_WORLD; "unknown" is a field that has no such ranks.
 */
#include <fcntl.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define HAS_SESSIONS 1
#endif
#define CHILDREN 2

static volatile int *control;
static int rank, data[64];

static int begin(int number)
{
    if (rank == 1)
        control[0] = number;
    while (rank != 1 && control[1] < number)
        usleep(500);
    return rank == 1;
}

/* Rank 1 receives from a peer of a communicator; the peer sends to rank 1, which is VICTIM there. */
static void message(int number, MPI_Comm comm, int peer, int sender, int victim)
{
    if (begin(number))
        MPI_Recv(data, 5, MPI_INT, peer, 100 + number, comm, MPI_STATUS_IGNORE);
    else if (rank == sender)
        MPI_Send(data, 5, MPI_INT, victim, 100 + number, comm);
}

static void topologies(void)
{
    int two[2] = {2, 2}, periods[2] = {1, 1}, columns[2] = {1, 0};
    int index[4] = {2, 4, 6, 8}, edges[8] = {1, 3, 0, 2, 1, 3, 0, 2};
    int left, right, mine[4] = {0}, theirs[4];
    MPI_Comm cart, column, graph, reversed, dist;

    if (begin(1))
        MPI_Cart_create(MPI_COMM_WORLD, 2, two, periods, 0, &cart); /* @truth MPI_Cart_create members=0-3 */
    else
        MPI_Cart_create(MPI_COMM_WORLD, 2, two, periods, 0, &cart);
    message(2, cart, 3, 3, 1); /* @truth MPI_Recv source=3 tag=102 count=5 members=0-3 */
    MPI_Cart_sub(cart, columns, &column);
    message(3, column, 1, 3, 0); /* @truth MPI_Recv source=3 tag=103 members=1,3 */
    MPI_Graph_create(MPI_COMM_WORLD, 4, index, edges, 0, &graph);
    message(4, graph, 2, 2, 1); /* @truth MPI_Recv source=2 tag=104 members=0-3 */
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
    left = (3 - rank + 3) % 4, right = (3 - rank + 1) % 4;
    MPI_Dist_graph_create_adjacent(reversed, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED,
                                   MPI_INFO_NULL, 0, &dist);
    message(5, dist, 3, 0, 2); /* @truth MPI_Recv source=0 tag=105 members=0-3 */
    begin(6);
    MPI_Neighbor_allgather(mine, 1, MPI_INT, theirs, 1, MPI_INT, dist); /* @truth MPI_Neighbor_allgather count=1 members=0-3 */
}

static void groups(void)
{
    int three[3] = {3, 1, 0};
    MPI_Group all, some;
    MPI_Comm sub = MPI_COMM_NULL, host, half;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, 3, three, &some);
    begin(7);
    if (rank != 2)
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 9, &sub); /* @truth MPI_Comm_create_group group=0-1,3 tag=9 members=0-3 */
    message(8, sub, 0, 3, 1); /* @truth MPI_Recv source=3 tag=108 members=0-1,3 */
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL, &host);
    message(9, host, 3, 0, 2); /* @truth MPI_Recv source=0 tag=109 members=0-3 */
    MPI_Comm_split(host, rank == 2, rank == 3, &half);
    message(10, half, 2, 3, 0); /* @truth MPI_Recv source=3 tag=110 members=0-1,3 */
}

static void intercommunicators(void)
{
    MPI_Comm half, inter, merged, turned, copy;

    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &half);
    begin(11);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < 2 ? 2 : 0, 9, &inter); /* @truth MPI_Intercomm_create members=0-1 tag=9 */
    message(12, inter, 1, 3, 1); /* @truth MPI_Recv source=3 tag=112 members=0-1 remote=2-3 */
    begin(13);
    MPI_Barrier(inter); /* @truth MPI_Barrier members=0-1 remote=2-3 */
    begin(14);
    MPI_Bcast(data, 3, MPI_INT, rank == 2 ? MPI_ROOT : rank == 3 ? MPI_PROC_NULL : 0, inter); /* @truth MPI_Bcast root=2 count=3 members=0-1 remote=2-3 */
    MPI_Comm_split(inter, 0, -rank, &turned);
    message(15, turned, 1, 2, 0); /* @truth MPI_Recv source=2 tag=115 members=0-1 remote=2-3 */
    MPI_Comm_dup(inter, &copy);
    message(16, copy, 0, 2, 1); /* @truth MPI_Recv source=2 tag=116 members=0-1 remote=2-3 */
    begin(17);
    MPI_Intercomm_merge(copy, rank < 2, &merged); /* @truth MPI_Intercomm_merge members=0-1 remote=2-3 */
    message(18, merged, 1, 3, 3); /* @truth MPI_Recv source=3 tag=118 members=0-3 */
}

static void sessions(void)
{
    MPI_Comm comm;
#ifdef HAS_SESSIONS
    MPI_Session session;
    MPI_Group group;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "pgdb", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
#else
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
#endif
    message(19, comm, 3, 3, 1); /* @truth MPI_Recv source=3 tag=119 members=0-3 */
    MPI_Comm_free(&comm);
#ifdef HAS_SESSIONS
    MPI_Session_finalize(&session);
#endif
}

static void children(char *program, char *file)
{
    char *arguments[] = {file, "child", NULL};
    MPI_Comm inter, merged;
    int n;

    begin(20);
    MPI_Comm_spawn(program, arguments, CHILDREN, MPI_INFO_NULL, 2, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE); /* @truth MPI_Comm_spawn root=2 members=0-3 */
    message(21, inter, 1, -1, 1); /* @truth MPI_Recv source=unknown tag=121 members=0-3 remote=? */
    MPI_Intercomm_merge(inter, 0, &merged);
    message(22, merged, 3, 3, 1); /* @truth MPI_Recv source=3 tag=122 members=0-3 remote=? */
    message(23, merged, 5, -1, 1); /* @truth MPI_Recv source=unknown tag=123 members=0-3 remote=? */
    begin(24);
    MPI_Barrier(merged); /* @truth MPI_Barrier members=0-3 remote=? */
    for (n = 0; rank == 0 && n < CHILDREN; n++)
        MPI_Send(data, 1, MPI_INT, n, 0, inter);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&inter);
}

/* Child 1 sends to rank 1 of the parents, by the intercommunicator and by the merged one. */
static void child(MPI_Comm parent)
{
    MPI_Comm merged;
    int is_sender = rank == 1;

    rank = -1;
    begin(21);
    if (is_sender)
        MPI_Ssend(data, 5, MPI_INT, 1, 121, parent);
    MPI_Intercomm_merge(parent, 1, &merged);
    begin(23);
    if (is_sender)
        MPI_Ssend(data, 5, MPI_INT, 1, 123, merged);
    begin(24);
    MPI_Barrier(merged);
    MPI_Recv(data, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&parent);
}

int main(int argc, char **argv)
{
    MPI_Comm parent;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    control = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, open(argv[1], O_RDWR), 0);
    if (control == MAP_FAILED)
        MPI_Abort(MPI_COMM_WORLD, 1);
    if (parent != MPI_COMM_NULL) {
        child(parent);
    } else {
        topologies();
        groups();
        intercommunicators();
        sessions();
#ifndef NO_SPAWN
        children(argv[0], argv[1]);
#endif
    }
    MPI_Finalize();
    return 0;
}
