"""The functions of MPI with their kinds and arguments: the one table, after the MPI 4.1 standard.

Names of arguments are those of the standard, and their order is that of C. ``*`` marks a handle
that is passed by its address and has a value before the call. ``:`` stands before the meaning of an
argument that has another meaning than its name has elsewhere; see :data:`TYPES`.
"""

from __future__ import annotations

from enum import IntFlag
from functools import lru_cache
from typing import Literal

import msgspec

from pgdb.mpi_calls import CallKind
from pgdb.patterns import pattern

ArgumentType = Literal["int", "count", "address", "handle", "pointer", "request", "requests"]
"""``count`` has 64 bits in functions for large counts, ``address`` (MPI_Aint) has them in all;
``request`` is the address of a handle."""

TYPES: dict[str, ArgumentType] = {
    "_": "pointer",
    "count": "count",
    "count2": "count",
    "partitions": "int",
    "dest": "int",
    "source": "int",
    "tag": "int",
    "tag2": "int",
    "root": "int",
    "target": "int",
    "number": "int",
    "displacement": "address",
    "comm": "handle",
    "datatype": "handle",
    "op": "handle",
    "win": "handle",
    "file": "handle",
    "group": "handle",
    "request_handle": "handle",
    "message": "pointer",
    "request": "request",
    "requests": "requests",
    "int": "int",
    "handle": "handle",
}
"""The meanings of arguments, with their types.

``count2`` and ``tag2`` are those of the part of a call that receives. ``_`` says nothing about
waiting: buffers, statuses, results. ``int`` and ``handle`` are others of their type.
"""

_MEANINGS = {
    "sendcount": "count",
    "origin_count": "count",
    "recvcount": "count2",
    "sendtype": "datatype",
    "origin_datatype": "datatype",
    "recvtype": "handle",
    "sendtag": "tag",
    "recvtag": "tag2",
    "rank": "target",
    "target_rank": "target",
    "target_disp": "displacement",
    "incount": "number",
    "array_of_requests": "requests",
    "request*": "request",
    "request_value": "request_handle",
    "message*": "message",
    "fh": "file",
    **dict.fromkeys(
        "disp_unit target_count result_count lock_type assert color key split_type maxprocs n fd"
        " local_leader remote_leader high reorder ndims nnodes indegree amode whence"
        " errorcode required partition partition_low partition_high length".split(),
        "int",
    ),
    **dict.fromkeys(
        "info local_group remote_group peer_comm errhandler target_datatype"
        " result_datatype etype filetype".split(),
        "handle",
    ),
}
"""Meanings of names that are no meaning themselves; any other name is ``_``."""

_SEND = "buf count datatype dest tag comm"
_RECV = "buf count datatype source tag comm"
_SENDRECV = "sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm"
_REPLACE = "buf count datatype dest sendtag source recvtag comm"
_RMA = (
    "origin_addr origin_count origin_datatype target_rank target_disp target_count target_datatype"
)
_FETCH = (
    "origin_addr origin_count origin_datatype result_addr result_count result_datatype"
    " target_rank target_disp target_count target_datatype op win"
)
_DATA = "buf count datatype"

# Function: whether it waits for other ranks ("!"), kind, arguments.
_TABLE = f"""
Send ! send: {_SEND}
Ssend ! send: {_SEND}
Bsend send: {_SEND}
Rsend ! send: {_SEND}
Isend send: {_SEND} request
Issend send: {_SEND} request
Ibsend send: {_SEND} request
Irsend send: {_SEND} request
Send_init send: {_SEND} request
Ssend_init send: {_SEND} request
Bsend_init send: {_SEND} request
Rsend_init send: {_SEND} request
Psend_init send: buf partitions count datatype dest tag comm info request
Precv_init recv: buf partitions count datatype source tag comm info request
Recv ! recv: {_RECV} status
Irecv recv: {_RECV} request
Recv_init recv: {_RECV} request
Mrecv ! recv: {_DATA} message* status
Imrecv recv: {_DATA} message* request
Sendrecv ! sendrecv: {_SENDRECV} status
Isendrecv sendrecv: {_SENDRECV} request
Sendrecv_replace ! sendrecv: {_REPLACE} status
Isendrecv_replace sendrecv: {_REPLACE} request
Probe ! probe: source tag comm status
Mprobe ! probe: source tag comm message status
Iprobe probe: source tag comm flag status
Improbe probe: source tag comm flag message status
Wait ! wait: request* status
Waitall ! wait: count:number array_of_requests array_of_statuses
Waitany ! wait: count:number array_of_requests index status
Waitsome ! wait: incount array_of_requests outcount array_of_indices array_of_statuses
Test test: request* flag status
Testall test: count:number array_of_requests flag array_of_statuses
Testany test: count:number array_of_requests index flag status
Testsome test: incount array_of_requests outcount array_of_indices array_of_statuses
Request_get_status test: request_value flag status
Request_free ! other: request*
Cancel other: request*
Start start: request*
Startall start: count:number array_of_requests
Pready start: partition request_value
Pready_range start: partition_low partition_high request_value
Pready_list start: length array_of_partitions request_value
Parrived test: request_value partition flag
Buffer_detach ! other: buffer_addr size
Buffer_flush ! other:
Comm_detach_buffer ! other: comm buffer_addr size
Comm_flush_buffer ! other: comm
Session_detach_buffer ! other: session buffer_addr size
Session_flush_buffer ! other: session
Win_create ! comm: base size disp_unit info comm newwin
Win_allocate ! comm: size disp_unit info comm baseptr newwin
Win_allocate_shared ! comm: size disp_unit info comm baseptr newwin
Win_create_dynamic ! comm: info comm newwin
Win_free ! rma: win*
Win_fence ! rma: assert win
Win_start ! rma: group assert win
Win_complete ! rma: win
Win_post rma: group assert win
Win_wait ! rma: win
Win_test test: win flag
Win_lock ! rma: lock_type rank assert win
Win_unlock ! rma: rank win
Win_lock_all ! rma: assert win
Win_unlock_all ! rma: win
Win_flush ! rma: rank win
Win_flush_all ! rma: win
Win_flush_local ! rma: rank win
Win_flush_local_all ! rma: win
Win_sync rma: win
Win_set_name other: win win_name
Put rma: {_RMA} win
Get rma: {_RMA} win
Accumulate rma: {_RMA} op win
Rput rma: {_RMA} win request
Rget rma: {_RMA} win request
Raccumulate rma: {_RMA} op win request
Get_accumulate rma: {_FETCH}
Rget_accumulate rma: {_FETCH} request
Fetch_and_op rma: origin_addr result_addr datatype target_rank target_disp op win
Compare_and_swap rma: origin_addr compare_addr result_addr datatype target_rank target_disp win
Comm_dup ! comm: comm newcomm
Comm_dup_with_info ! comm: comm info newcomm
Comm_idup comm: comm newcomm request
Comm_idup_with_info comm: comm info newcomm request
Comm_create ! comm: comm group newcomm
Comm_create_group ! comm: comm group tag newcomm
Comm_create_from_group ! comm: group stringtag info errhandler newcomm
Comm_split ! comm: comm color key newcomm
Comm_split_type ! comm: comm split_type key info newcomm
Comm_free ! comm: comm*
Comm_disconnect ! comm: comm*
Comm_shrink ! comm: comm newcomm
Comm_agree ! collective: comm flag
Comm_set_info ! comm: comm info
Comm_set_name other: comm comm_name
Comm_spawn ! comm: command argv maxprocs info root comm newcomm array_of_errcodes
Comm_spawn_multiple ! comm: n commands argvs array_of_maxprocs array_of_info root comm newcomm \
    array_of_errcodes
Comm_accept ! comm: port_name info root comm newcomm
Comm_connect ! comm: port_name info root comm newcomm
Comm_join ! comm: fd newcomm
Intercomm_create ! comm: comm local_leader peer_comm remote_leader tag newcomm
Intercomm_create_from_groups ! comm: local_group local_leader remote_group remote_leader stringtag \
    info errhandler newcomm
Intercomm_merge ! comm: comm high newcomm
Cart_create ! comm: comm ndims dims periods reorder newcomm
Cart_sub ! comm: comm remain_dims newcomm
Graph_create ! comm: comm nnodes index edges reorder newcomm
Dist_graph_create ! comm: comm n sources degrees destinations weights info reorder newcomm
Dist_graph_create_adjacent ! comm: comm indegree sources sourceweights outdegree:int destinations \
    destweights info reorder newcomm
File_open ! file: comm filename amode info newfh
File_close ! file: fh*
File_set_view ! file: fh disp etype filetype datarep info
File_set_size ! file: fh size
File_preallocate ! file: fh size
File_sync ! file: fh
File_set_atomicity ! file: fh flag:int
File_set_info ! file: fh info
File_seek_shared ! file: fh offset whence
File_read file: fh {_DATA} status
File_write file: fh {_DATA} status
File_read_at file: fh offset {_DATA} status
File_write_at file: fh offset {_DATA} status
File_read_shared file: fh {_DATA} status
File_write_shared file: fh {_DATA} status
File_read_all ! file: fh {_DATA} status
File_write_all ! file: fh {_DATA} status
File_read_at_all ! file: fh offset {_DATA} status
File_write_at_all ! file: fh offset {_DATA} status
File_read_ordered ! file: fh {_DATA} status
File_write_ordered ! file: fh {_DATA} status
File_read_all_begin ! file: fh {_DATA}
File_read_all_end ! file: fh buf status
File_write_all_begin ! file: fh {_DATA}
File_write_all_end ! file: fh buf status
File_read_at_all_begin ! file: fh offset {_DATA}
File_read_at_all_end ! file: fh buf status
File_write_at_all_begin ! file: fh offset {_DATA}
File_write_at_all_end ! file: fh buf status
File_read_ordered_begin ! file: fh {_DATA}
File_read_ordered_end ! file: fh buf status
File_write_ordered_begin ! file: fh {_DATA}
File_write_ordered_end ! file: fh buf status
File_iread file: fh {_DATA} request
File_iwrite file: fh {_DATA} request
File_iread_at file: fh offset {_DATA} request
File_iwrite_at file: fh offset {_DATA} request
File_iread_shared file: fh {_DATA} request
File_iwrite_shared file: fh {_DATA} request
File_iread_all file: fh {_DATA} request
File_iwrite_all file: fh {_DATA} request
File_iread_at_all file: fh offset {_DATA} request
File_iwrite_at_all file: fh offset {_DATA} request
Init ! init: argc argv
Init_thread ! init: argc argv required provided
Session_init ! init: info errhandler session
Session_finalize ! finalize: session
Finalize ! finalize:
Abort other: comm errorcode
"""

_GATHER = "sendbuf sendcount sendtype recvbuf recvcount recvtype"
_GATHERV = "sendbuf sendcount sendtype recvbuf recvcounts displs recvtype"
# The standard lets ranks have different datatypes in these, so that they say nothing.
_ALLTOALLV = "sendbuf sendcounts sdispls sendtype:handle recvbuf recvcounts rdispls recvtype comm"
_ALLTOALLW = "sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm"
# Each of these has a nonblocking form with a request at its end, and a persistent one with an info
# and a request.
_COLLECTIVES = f"""
Barrier comm
Bcast buffer count datatype root comm
Gather {_GATHER} root comm
Gatherv {_GATHERV} root comm
Scatter {_GATHER} root comm
Scatterv sendbuf sendcounts displs sendtype recvbuf recvcount recvtype root comm
Allgather {_GATHER} comm
Allgatherv {_GATHERV} comm
Alltoall {_GATHER} comm
Alltoallv {_ALLTOALLV}
Alltoallw {_ALLTOALLW}
Reduce sendbuf recvbuf count datatype op root comm
Allreduce sendbuf recvbuf count datatype op comm
Reduce_scatter sendbuf recvbuf recvcounts datatype op comm
Reduce_scatter_block sendbuf recvbuf recvcount:count datatype op comm
Scan sendbuf recvbuf count datatype op comm
Exscan sendbuf recvbuf count datatype op comm
Neighbor_allgather {_GATHER} comm
Neighbor_allgatherv {_GATHERV} comm
Neighbor_alltoall {_GATHER} comm
Neighbor_alltoallv {_ALLTOALLV}
Neighbor_alltoallw {_ALLTOALLW}
"""

TEXTS = frozenset(
    {
        "filename",
        "comm_name",
        "win_name",
        "command",
        "commands",
        "argv",
        "argvs",
        "port_name",
        "datarep",
        "stringtag",
    }
)
"""Arguments that are texts: in Fortran their lengths follow all arguments."""


class Role(IntFlag):
    """Properties of a function that its arguments do not show."""

    NONE = 0
    COLLECTIVE = 1
    """All members of the communicator call it."""
    OPENS = 2
    """The call makes a request."""
    PERSISTENT = 4
    """The request of the call stays open when it is complete."""


class Argument(msgspec.Struct, frozen=True):
    """One argument of a function."""

    standard_name: str
    """Name in the standard, such as ``sendcount``."""
    name: str
    """Meaning, one of :data:`TYPES`."""
    is_pointed: bool = False
    """Whether the argument is the address of the handle (``MPI_Comm_free``)."""

    @property
    def type(self) -> ArgumentType:
        """Type of the argument in C."""
        return TYPES[self.name]


class Prototype(msgspec.Struct, frozen=True):
    """One function of MPI."""

    name: str
    """Name in the standard, such as ``MPI_Recv``."""
    kind: CallKind
    blocking: bool
    arguments: tuple[Argument, ...] = ()
    role: Role = Role.NONE

    @property
    def waits_for(self) -> Literal["", "all", "any", "some"]:
        """The requests that end a call with an array of requests."""
        for word in ("all", "any", "some"):
            if self.name.endswith(word) and self.kind in ("wait", "test"):
                return word
        return "all" if self.kind in ("wait", "test") else ""


def _argument(word: str) -> Argument:
    name, _, meaning = word.partition(":")
    plain = name.rstrip("*")
    meaning = meaning or _MEANINGS.get(name) or _MEANINGS.get(plain) or plain
    # A request or a message without a value before the call is a result.
    is_known = meaning in TYPES and name not in ("request", "message")
    return Argument(
        plain.removesuffix("_value"),
        meaning if is_known else "_",
        name.endswith("*") and meaning in ("comm", "win", "file"),
    )


def _prototype(
    name: str, kind: CallKind, words: list[str], role: Role, *, blocking: bool
) -> Prototype:
    return Prototype(f"MPI_{name}", kind, blocking, tuple(map(_argument, words)), role)


def _role(name: str, words: list[str]) -> Role:
    role = Role.NONE
    makes = "newcomm" in words and "comm" in words and name != "Comm_create_group"
    if makes or name == "Comm_disconnect":
        role |= Role.COLLECTIVE
    if words and words[-1] == "request":
        role |= Role.OPENS
    return role | Role.PERSISTENT if name.endswith("_init") and Role.OPENS in role else role


def _rows() -> dict[str, Prototype]:
    found = []
    for line in _TABLE.strip().splitlines():
        head, _, arguments = line.partition(":")
        name, *rest = head.split()
        words = arguments.split()
        kind: CallKind = rest[-1]  # type: ignore[assignment]  # a kind
        role = _role(name, words)
        found.append(_prototype(name, kind, words, role, blocking="!" in rest))
    for line in _COLLECTIVES.strip().splitlines():
        name, *words = line.split()
        later = Role.COLLECTIVE | Role.OPENS
        found += [
            _prototype(name, "collective", words, Role.COLLECTIVE, blocking=True),
            _prototype(
                f"I{name.lower()}", "collective", [*words, "request"], later, blocking=False
            ),
            _prototype(
                f"{name}_init",
                "collective",
                [*words, "info", "request"],
                later | Role.PERSISTENT,
                blocking=False,
            ),
        ]
    return {each.name: each for each in found}


NEIGHBOURHOOD = "MPI_Neighbor_"
"""Beginning of the names of calls that wait for the neighbours of a topology alone."""
GATHERING = frozenset({"MPI_Exscan", "MPI_Gather", "MPI_Gatherv", "MPI_Reduce", "MPI_Scan"})
"""Calls in which members receive the parts of others and may leave early: for a root, or, as in
MPI_Scan, for the ranks behind them."""
PROTOTYPES = _rows()
"""The functions of MPI that wait, or that begin something to wait for, by their names.

"""
NUMBERED = tuple(PROTOTYPES.values())
"""The same functions; the recorder of MPI calls numbers a function by its place here."""
_BY_LOWER = {name.lower(): name for name in PROTOTYPES}
_AFFIXES = pattern(r"p?(mpi_[a-z0-9_]+?)(?:_c)?(?:_cdesc|(_f08(?:ts)?|_f)?_{0,2})\Z")
"""A name in lower case: that of the standard, and the ending of a name of Fortran, which Open MPI
has in the letters of C, too (``MPI_Bcast_f``)."""


class CalledName(msgspec.Struct, frozen=True):
    """A name of a function of MPI in an object file."""

    function: str
    """Name in the standard."""
    is_fortran: bool
    """Whether it takes its arguments as Fortran passes them: by their addresses."""
    is_large: bool
    """Whether its counts have 64 bits."""


@lru_cache(maxsize=4096)
def called_name(symbol: str) -> CalledName | None:
    """Return the function of MPI that a symbol of an MPI library names, None if it names none.

    >>> called_name("PMPI_Send_c").function, called_name("mpi_recv_f08_").is_fortran
    ('MPI_Send', True)
    """
    plain = symbol.partition("@")[0]
    match = _AFFIXES.match(plain.lower())
    if match is None:
        return None
    lower = match[1]
    name = _BY_LOWER.get(lower)
    has_letters_of_c = plain.startswith(("MPI_", "PMPI_")) and not plain.isupper()
    is_c = has_letters_of_c and match[2] is None and not plain.endswith("_")
    if name is None:
        if not is_c:
            name = f"MPI_{lower[4:].capitalize()}"
        else:
            name = plain[plain.index("MPI_") :]
    return CalledName(name, not is_c, is_c and plain.endswith("_c"))


def standard_name(symbol: str) -> str:
    """Return the name of a function in the standard, empty for anything but a name of MPI's."""
    found = called_name(symbol)
    return found.function if found is not None else ""


def properties_of(function: str) -> tuple[CallKind, bool | None]:
    """Return the kind of a function of MPI, and whether it waits for others, None if unknown."""
    found = PROTOTYPES.get(function)
    return (found.kind, found.blocking) if found is not None else ("other", None)
