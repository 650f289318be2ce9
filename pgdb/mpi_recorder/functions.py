"""The MPI functions that the flight recorder sees, with the arguments that the standard gives them.

Names of arguments are those of the MPI standard (version 4.1, its language-independent form), and
their order is that of C. A place in the table is the number of a function in the recorder's memory.
"""

from __future__ import annotations

from enum import IntFlag

import msgspec

_POINT_TO_POINT = """
Send buf count datatype dest tag comm
Ssend buf count datatype dest tag comm
Bsend buf count datatype dest tag comm
Rsend buf count datatype dest tag comm
Recv buf count datatype source tag comm status
Isend buf count datatype dest tag comm request
Issend buf count datatype dest tag comm request
Ibsend buf count datatype dest tag comm request
Irsend buf count datatype dest tag comm request
Irecv buf count datatype source tag comm request
Sendrecv sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm \
    status
Sendrecv_replace buf count datatype dest sendtag source recvtag comm status
Isendrecv sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm \
    request
Isendrecv_replace buf count datatype dest sendtag source recvtag comm request
Probe source tag comm status
Iprobe source tag comm flag status
Mprobe source tag comm message status
Improbe source tag comm flag message status
Mrecv buf count datatype message status
Imrecv buf count datatype message request
Send_init buf count datatype dest tag comm request
Ssend_init buf count datatype dest tag comm request
Bsend_init buf count datatype dest tag comm request
Rsend_init buf count datatype dest tag comm request
Recv_init buf count datatype source tag comm request
Psend_init buf partitions count datatype dest tag comm info request
Precv_init buf partitions count datatype source tag comm info request
Pready partition request
Parrived request partition flag
"""

_REQUESTS = """
Start request
Startall count array_of_requests
Wait request status
Test request flag status
Waitall count array_of_requests array_of_statuses
Testall count array_of_requests flag array_of_statuses
Waitany count array_of_requests index status
Testany count array_of_requests index flag status
Waitsome incount array_of_requests outcount array_of_indices array_of_statuses
Testsome incount array_of_requests outcount array_of_indices array_of_statuses
Request_free request
"""

# Each of these has a nonblocking form with a request at its end, and a persistent one with an info
# and a request.
_COLLECTIVE = """
Barrier comm
Bcast buffer count datatype root comm
Reduce sendbuf recvbuf count datatype op root comm
Allreduce sendbuf recvbuf count datatype op comm
Gather sendbuf sendcount sendtype recvbuf recvcount recvtype root comm
Gatherv sendbuf sendcount sendtype recvbuf recvcounts displs recvtype root comm
Scatter sendbuf sendcount sendtype recvbuf recvcount recvtype root comm
Scatterv sendbuf sendcounts displs sendtype recvbuf recvcount recvtype root comm
Allgather sendbuf sendcount sendtype recvbuf recvcount recvtype comm
Allgatherv sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm
Alltoall sendbuf sendcount sendtype recvbuf recvcount recvtype comm
Alltoallv sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm
Alltoallw sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm
Reduce_scatter sendbuf recvbuf recvcounts datatype op comm
Reduce_scatter_block sendbuf recvbuf recvcount datatype op comm
Scan sendbuf recvbuf count datatype op comm
Exscan sendbuf recvbuf count datatype op comm
Neighbor_allgather sendbuf sendcount sendtype recvbuf recvcount recvtype comm
Neighbor_allgatherv sendbuf sendcount sendtype recvbuf recvcounts displs recvtype comm
Neighbor_alltoall sendbuf sendcount sendtype recvbuf recvcount recvtype comm
Neighbor_alltoallv sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm
Neighbor_alltoallw sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm
"""

_COMMUNICATORS = """
Comm_dup comm newcomm
Comm_dup_with_info comm info newcomm
Comm_idup comm newcomm request
Comm_idup_with_info comm info newcomm request
Comm_split comm color key newcomm
Comm_split_type comm split_type key info newcomm
Comm_create comm group newcomm
Comm_create_group comm group tag newcomm
Comm_free comm
Comm_disconnect comm
Comm_set_name comm comm_name
Cart_create comm ndims dims periods reorder newcomm
Cart_sub comm remain_dims newcomm
Graph_create comm nnodes indexes edges reorder newcomm
Dist_graph_create comm n sources degrees destinations weights info reorder newcomm
Dist_graph_create_adjacent comm indegree sources sourceweights outdegree destinations destweights \
    info reorder newcomm
Intercomm_create comm local_leader peer_comm remote_leader tag newcomm
Intercomm_merge comm high newcomm
Comm_spawn command argv maxprocs info root comm newcomm array_of_errcodes
Comm_spawn_multiple n commands argvs maxprocs infos root comm newcomm array_of_errcodes
Comm_accept port_name info root comm newcomm
Comm_connect port_name info root comm newcomm
"""

_WINDOWS = """
Win_create base size disp_unit info comm newwin
Win_allocate size disp_unit info comm baseptr newwin
Win_allocate_shared size disp_unit info comm baseptr newwin
Win_create_dynamic info comm newwin
Win_free freed_win
Win_set_name win win_name
Win_fence assert win
Win_start group assert win
Win_complete win
Win_post group assert win
Win_wait win
Win_test win flag
Win_lock lock_type dest assert win
Win_unlock dest win
Win_lock_all assert win
Win_unlock_all win
Win_flush dest win
Win_flush_all win
Win_flush_local dest win
Win_flush_local_all win
Win_sync win
"""

_FILES = """
File_open comm filename amode info newfh
File_close closed_fh
File_set_size fh size
File_preallocate fh size
File_set_view fh disp etype filetype datarep info
File_read fh buf count datatype status
File_write fh buf count datatype status
File_read_at fh offset buf count datatype status
File_write_at fh offset buf count datatype status
File_read_all fh buf count datatype status
File_write_all fh buf count datatype status
File_read_at_all fh offset buf count datatype status
File_write_at_all fh offset buf count datatype status
File_read_shared fh buf count datatype status
File_write_shared fh buf count datatype status
File_read_ordered fh buf count datatype status
File_write_ordered fh buf count datatype status
File_seek_shared fh offset whence
File_sync fh
"""

_PROGRAM = """
Init argc argv
Init_thread argc argv required provided
Finalize
Abort comm errorcode
"""

TEXTS = frozenset(
    {"filename", "comm_name", "win_name", "command", "commands", "argvs", "port_name", "datarep"}
)
"""Arguments that are texts: in Fortran their lengths follow all arguments."""


class Role(IntFlag):
    """Properties of a function that its arguments do not show."""

    NONE = 0
    COLLECTIVE = 1
    """All members of the communicator call it."""
    OPENS = 2
    """It makes a request."""
    PERSISTENT = 4
    """Its request stays open when it is complete."""


class Function(msgspec.Struct, frozen=True):
    """One function of MPI."""

    name: str
    """Name in C, such as ``MPI_Send``."""
    arguments: tuple[str, ...]
    role: Role = Role.NONE


def _rows(text: str) -> list[tuple[str, tuple[str, ...]]]:
    words = (line.split() for line in text.splitlines() if line.strip())
    return [(f"MPI_{name}", tuple(arguments)) for name, *arguments in words]


def _functions() -> tuple[Function, ...]:
    found = []
    for name, arguments in _rows(_POINT_TO_POINT + _REQUESTS):
        opens = arguments[-1] == "request" and arguments[0] in ("buf", "sendbuf")
        role = Role.OPENS if opens else Role.NONE
        found.append(
            Function(name, arguments, role | Role.PERSISTENT if name.endswith("_init") else role)
        )
    for name, arguments in _rows(_COLLECTIVE):
        stem = name.removeprefix("MPI_")
        found.append(Function(name, arguments, Role.COLLECTIVE))
        later = Role.COLLECTIVE | Role.OPENS
        found.append(Function(f"MPI_I{stem.lower()}", (*arguments, "request"), later))
        found.append(
            Function(f"{name}_init", (*arguments, "info", "request"), later | Role.PERSISTENT)
        )
    for name, arguments in _rows(_COMMUNICATORS):
        makes = "newcomm" in arguments and name != "MPI_Comm_create_group"
        role = Role.COLLECTIVE if makes or name == "MPI_Comm_disconnect" else Role.NONE
        role |= Role.OPENS if arguments[-1] == "request" else Role.NONE
        found.append(Function(name, arguments, role))
    found += [Function(name, arguments) for name, arguments in _rows(_WINDOWS + _FILES + _PROGRAM)]
    return tuple(found)


FUNCTIONS = _functions()
