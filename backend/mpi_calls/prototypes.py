"""The functions of MPI with their kinds and arguments: one table, after the MPI 4.1 standard.

Arguments that say nothing about waiting (buffers, statuses, results) are ``_``. The names of
the others give their types, see :data:`TYPES`; ``count2`` and ``tag2`` are those of the part of a
call that receives.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import msgspec

from pgdb.mpi_calls import CallKind
from pgdb.patterns import pattern

ArgumentType = Literal["int", "count", "handle", "pointer", "request", "requests"]
"""``count`` has 64 bits in functions for large counts; ``request`` is the address of a handle."""

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
    "comm": "handle",
    "datatype": "handle",
    "op": "handle",
    "win": "handle",
    "file": "handle",
    "message": "pointer",
    "request": "request",
    "requests": "requests",
    "int": "int",
    "handle": "handle",
}

_RECV2 = "_ count2 handle"
_GATHER = f"_ count datatype {_RECV2}"
_VECTOR = "_ _ _ handle _ _ _ handle"
_NEIGHBOR = {
    "Neighbor_allgather": f"{_GATHER} comm",
    "Neighbor_allgatherv": "_ count datatype _ _ _ handle comm",
    "Neighbor_alltoall": f"{_GATHER} comm",
    "Neighbor_alltoallv": f"{_VECTOR} comm",
    "Neighbor_alltoallw": "_ _ _ _ _ _ _ _ comm",
}
_COLLECTIVES = {
    "Barrier": "comm",
    "Bcast": "_ count datatype root comm",
    "Gather": f"{_GATHER} root comm",
    "Gatherv": "_ count datatype _ _ _ handle root comm",
    "Scatter": f"{_GATHER} root comm",
    "Scatterv": "_ _ _ datatype _ count2 handle root comm",
    "Allgather": f"{_GATHER} comm",
    "Allgatherv": "_ count datatype _ _ _ handle comm",
    "Alltoall": f"{_GATHER} comm",
    "Alltoallv": f"{_VECTOR} comm",
    "Alltoallw": "_ _ _ _ _ _ _ _ comm",
    "Reduce": "_ _ count datatype op root comm",
    "Allreduce": "_ _ count datatype op comm",
    "Reduce_scatter": "_ _ _ datatype op comm",
    "Reduce_scatter_block": "_ _ count datatype op comm",
    "Scan": "_ _ count datatype op comm",
    "Exscan": "_ _ count datatype op comm",
    **_NEIGHBOR,
}
_SEND = "_ count datatype dest tag comm"
_SENDRECV = "_ count datatype dest tag _ count2 handle source tag2 comm _"
_RMA = "_ count datatype target _ count2 handle"

# Function: kind, whether it waits for other ranks ("!"), arguments.
_TABLE = f"""
Send ! send: {_SEND}
Ssend ! send: {_SEND}
Bsend send: {_SEND}
Rsend ! send: {_SEND}
Isend send: {_SEND} _
Issend send: {_SEND} _
Ibsend send: {_SEND} _
Irsend send: {_SEND} _
Send_init send: {_SEND} _
Ssend_init send: {_SEND} _
Bsend_init send: {_SEND} _
Rsend_init send: {_SEND} _
Psend_init send: _ partitions count datatype dest tag comm handle _
Precv_init recv: _ partitions count datatype source tag comm handle _
Recv ! recv: _ count datatype source tag comm _
Irecv recv: _ count datatype source tag comm _
Recv_init recv: _ count datatype source tag comm _
Mrecv ! recv: _ count datatype message _
Imrecv recv: _ count datatype message _
Sendrecv ! sendrecv: {_SENDRECV}
Isendrecv sendrecv: {_SENDRECV}
Sendrecv_replace ! sendrecv: _ count datatype dest tag source tag2 comm _
Isendrecv_replace sendrecv: _ count datatype dest tag source tag2 comm _
Probe ! probe: source tag comm _
Mprobe ! probe: source tag comm _ _
Iprobe probe: source tag comm _ _
Improbe probe: source tag comm _ _ _
Wait ! wait: request _
Waitall ! wait: number requests _
Waitany ! wait: number requests _ _
Waitsome ! wait: number requests _ _ _
Test test: request _ _
Testall test: number requests _ _
Testany test: number requests _ _ _
Testsome test: number requests _ _ _
Request_get_status test: handle _ _
Request_free ! other: request
Cancel other: request
Start start: request
Startall start: number requests
Pready start: int handle
Pready_range start: int int handle
Pready_list start: int _ handle
Parrived test: handle int _
Buffer_detach ! other: _ _
Comm_buffer_detach ! other: comm _ _
Win_create ! comm: _ _ int handle comm _
Win_allocate ! comm: _ int handle comm _ _
Win_allocate_shared ! comm: _ int handle comm _ _
Win_create_dynamic ! comm: handle comm _
Win_free ! rma: win*
Win_fence ! rma: int win
Win_start ! rma: handle int win
Win_complete ! rma: win
Win_post rma: handle int win
Win_wait ! rma: win
Win_test rma: win _
Win_lock ! rma: int target int win
Win_unlock ! rma: target win
Win_lock_all ! rma: int win
Win_unlock_all ! rma: win
Win_flush ! rma: target win
Win_flush_all ! rma: win
Win_flush_local ! rma: target win
Win_flush_local_all ! rma: win
Win_sync rma: win
Put rma: _ count datatype target _ int handle win
Get rma: _ count datatype target _ int handle win
Accumulate rma: _ count datatype target _ int handle op win
Rput rma: _ count datatype target _ int handle win _
Rget rma: _ count datatype target _ int handle win _
Raccumulate rma: _ count datatype target _ int handle op win _
Get_accumulate rma: _ count datatype _ int handle target _ int handle op win
Rget_accumulate rma: _ count datatype _ int handle target _ int handle op win _
Fetch_and_op rma: _ _ datatype target _ op win
Compare_and_swap rma: _ _ _ datatype target _ win
Comm_dup ! comm: comm _
Comm_dup_with_info ! comm: comm handle _
Comm_idup comm: comm _ _
Comm_idup_with_info comm: comm handle _ _
Comm_create ! comm: comm handle _
Comm_create_group ! comm: comm handle tag _
Comm_create_from_group ! comm: handle _ handle handle _
Comm_split ! comm: comm int int _
Comm_split_type ! comm: comm int int handle _
Comm_free ! comm: comm*
Comm_disconnect ! comm: comm*
Comm_shrink ! comm: comm _
Comm_agree ! collective: comm _
Comm_set_info ! comm: comm handle
Comm_spawn ! comm: _ _ int handle root comm _ _
Comm_spawn_multiple ! comm: int _ _ _ _ root comm _ _
Comm_accept ! comm: _ handle root comm _
Comm_connect ! comm: _ handle root comm _
Comm_join ! comm: int _
Intercomm_create ! comm: comm int handle int tag _
Intercomm_create_from_groups ! comm: handle int handle int _ handle handle _
Intercomm_merge ! comm: comm int _
Cart_create ! comm: comm int _ _ int _
Cart_sub ! comm: comm _ _
Graph_create ! comm: comm int _ _ int _
Dist_graph_create ! comm: comm int _ _ _ _ handle int _
Dist_graph_create_adjacent ! comm: comm int _ _ int _ _ handle int _
File_open ! file: comm _ int handle _
File_close ! file: file*
File_set_view ! file: file _ handle handle _ handle
File_set_size ! file: file _
File_preallocate ! file: file _
File_sync ! file: file
File_set_atomicity ! file: file int
File_set_info ! file: file handle
File_seek_shared ! file: file _ int
File_read file: file _ count datatype _
File_write file: file _ count datatype _
File_read_at file: file _ _ count datatype _
File_write_at file: file _ _ count datatype _
File_read_shared file: file _ count datatype _
File_write_shared file: file _ count datatype _
File_read_all ! file: file _ count datatype _
File_write_all ! file: file _ count datatype _
File_read_at_all ! file: file _ _ count datatype _
File_write_at_all ! file: file _ _ count datatype _
File_read_ordered ! file: file _ count datatype _
File_write_ordered ! file: file _ count datatype _
File_read_all_begin ! file: file _ count datatype
File_read_all_end ! file: file _ _
File_write_all_begin ! file: file _ count datatype
File_write_all_end ! file: file _ _
File_read_at_all_begin ! file: file _ _ count datatype
File_read_at_all_end ! file: file _ _
File_write_at_all_begin ! file: file _ _ count datatype
File_write_at_all_end ! file: file _ _
File_read_ordered_begin ! file: file _ count datatype
File_read_ordered_end ! file: file _ _
File_write_ordered_begin ! file: file _ count datatype
File_write_ordered_end ! file: file _ _
File_iread file: file _ count datatype _
File_iwrite file: file _ count datatype _
File_iread_at file: file _ _ count datatype _
File_iwrite_at file: file _ _ count datatype _
File_iread_shared file: file _ count datatype _
File_iwrite_shared file: file _ count datatype _
File_iread_all file: file _ count datatype _
File_iwrite_all file: file _ count datatype _
File_iread_at_all file: file _ _ count datatype _
File_iwrite_at_all file: file _ _ count datatype _
Init ! init: _ _
Init_thread ! init: _ _ int _
Session_init ! init: handle handle _
Session_finalize ! finalize: _
Finalize ! finalize:
Abort other: comm int
"""


class Argument(msgspec.Struct, frozen=True):
    """One argument of a function."""

    name: str
    type: ArgumentType
    is_pointed: bool = False
    """Whether the argument is the address of the handle (``MPI_Comm_free``)."""


class Prototype(msgspec.Struct, frozen=True):
    """One function of MPI."""

    name: str
    """Name in the standard, such as ``MPI_Recv``."""
    kind: CallKind
    blocking: bool
    arguments: tuple[Argument, ...] = ()

    @property
    def waits_for(self) -> Literal["", "all", "any", "some"]:
        """The requests that end a call with an array of requests."""
        for word in ("all", "any", "some"):
            if self.name.endswith(word) and self.kind in ("wait", "test"):
                return word
        return "all" if self.kind in ("wait", "test") else ""


def _argument(word: str) -> Argument:
    name = word.rstrip("*")
    return Argument(name, TYPES[name], word.endswith("*"))


def _rows() -> dict[str, Prototype]:
    found = {}
    for line in _TABLE.strip().splitlines():
        head, _, words = line.partition(":")
        name, *rest = head.split()
        arguments = tuple(map(_argument, words.split()))
        found[f"MPI_{name}"] = Prototype(f"MPI_{name}", rest[-1], "!" in rest, arguments)  # type: ignore[arg-type]  # a kind
    for name, words in _COLLECTIVES.items():
        arguments = tuple(map(_argument, words.split()))
        lower = f"I{name[0].lower()}{name[1:]}"
        found[f"MPI_{name}"] = Prototype(f"MPI_{name}", "collective", True, arguments)
        for other, more in ((lower, "_"), (f"{name}_init", "handle _")):
            extra = tuple(map(_argument, more.split()))
            found[f"MPI_{other}"] = Prototype(
                f"MPI_{other}", "collective", False, (*arguments, *extra)
            )
    return found


PROTOTYPES = _rows()
"""The functions of MPI that wait, or that begin something to wait for, by their names."""
_BY_LOWER = {name.lower(): name for name in PROTOTYPES}
_AFFIXES = pattern(r"p?(mpi_[a-z0-9_]+?)(?:_c)?(?:_f08(?:ts)?|_cdesc|_f)?_{0,2}\Z")


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
    is_c = plain.startswith(("MPI_", "PMPI_")) and not plain.isupper() and not plain.endswith("_")
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
