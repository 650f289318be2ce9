"""Conditions under which a call returns: the ranks that have to do their part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from pgdb.frontend.analysis.why.matching import CREATES_BY_GROUP, group_of, members_of
from pgdb.frontend.analysis.why.operations import EARLY
from pgdb.frontend.analysis.why.parties import Party
from pgdb.mpi_calls import (
    ANY_SOURCE,
    ELSEWHERE,
    PROC_NULL,
    RECEIVES,
    ROOT,
    SENDS,
    Communicator,
    MpiCall,
    Peer,
    Request,
    Tag,
)
from pgdb.mpi_functions import NEIGHBOURHOOD
from pgdb.ranks import RankSet

NeedKind = Literal["message", "receiver", "meeting", "connection", "elsewhere", "others"]
"""The missing part: a message; a receiver for one; the other members of a collective call; a
connection with another job; of an unknown kind."""
_MEETINGS = frozenset({"collective", "persistent collective"})

_COLLECTIVE_RMA = frozenset(
    {
        "MPI_Win_fence",
        "MPI_Win_create",
        "MPI_Win_allocate",
        "MPI_Win_allocate_shared",
        "MPI_Win_create_dynamic",
        "MPI_Win_free",
    }
)
_COLLECTIVE_FILE = frozenset(
    {
        "MPI_File_open",
        "MPI_File_close",
        "MPI_File_set_view",
        "MPI_File_set_size",
        "MPI_File_preallocate",
        "MPI_File_sync",
        "MPI_File_set_atomicity",
    }
)
ROOTED = frozenset(
    {
        "MPI_Bcast",
        "MPI_Exscan",
        "MPI_Gather",
        "MPI_Gatherv",
        "MPI_Reduce",
        "MPI_Scan",
        "MPI_Scatter",
        "MPI_Scatterv",
        *EARLY,
        # Functions of PyTorch.
        "broadcast",
        "broadcast_object_list",
        "gather",
        "gather_object",
        "reduce",
        "scatter",
        "scatter_object_list",
    }
)
"""Collective calls that a member may leave before others have come.

A member waits for some of those that are absent, by a tree that is the library's own.
"""
WIN_TEST = "MPI_Win_test"
"""The function that tests a window, and no request."""
_EAGER_COUNT = 128
"""Elements that every MPI sends without waiting for the receiver."""
CONNECTIONS = frozenset({"MPI_Comm_accept", "MPI_Comm_connect", "MPI_Comm_join"})
"""Calls that wait for processes of another job."""
SPAWNS = frozenset({"MPI_Comm_spawn", "MPI_Comm_spawn_multiple"})
"""Calls that start processes, and wait until these have called MPI_Init."""
_DRAINING = frozenset(
    f"MPI_{each}"
    for each in (
        "Buffer_detach",
        "Buffer_flush",
        "Comm_detach_buffer",
        "Comm_flush_buffer",
        "Session_detach_buffer",
        "Session_flush_buffer",
    )
)
"""Calls that wait until the receivers of all messages of MPI_Bsend have them."""
# They wait for processes outside the communicator, or for a subset that they do not name.
_OPEN_ENDED = CONNECTIONS | {"MPI_Intercomm_create"}


class Need(msgspec.Struct, frozen=True):
    """The ranks that have to do something before a call returns."""

    kind: NeedKind
    targets: RankSet
    every: bool = True
    """Whether all targets have to do it; if not, one of them is enough."""
    peer: Peer | None = None
    tag: Tag | None = None
    communicator: Communicator | None = None
    is_known: bool = True
    """Whether the targets are known, and not merely all ranks that are possible."""


_ELSEWHERE = Need("elsewhere", RankSet(), every=False, is_known=False)
"""Need of ranks of another world, which nobody here can name."""


class Condition(msgspec.Struct, frozen=True):
    """The needs of one call."""

    needs: tuple[Need, ...]
    every: bool = True
    """Whether the call returns after all needs are met, or after one of them."""
    is_exchange: bool = False
    """Whether the call sends and receives; either part may be complete."""


Absentees = Callable[[MpiCall], RankSet]
"""Function that returns the members of a collective call's group that are not in that call."""


def is_meeting(call: MpiCall) -> bool:
    """Return whether a call waits for all ranks of a group."""
    if call.blocking is False:
        return False
    function = call.function
    if function == CREATES_BY_GROUP and (call.group is None or call.group.members is None):
        return False
    if function in _OPEN_ENDED or function.startswith(NEIGHBOURHOOD):
        return False
    match call.kind:
        case "collective" | "comm" | "init" | "finalize":
            return True
        case "rma":
            return function in _COLLECTIVE_RMA
        case "file":
            is_split = function.endswith(("_all_begin", "_ordered_begin"))
            is_named = function.endswith(("_all", "_all_end", "_ordered", "_ordered_end"))
            return is_split or is_named or function in _COLLECTIVE_FILE
    return False


def conditions_of(party: Party, world: RankSet, absentees: Absentees) -> tuple[Condition, ...]:
    """Return the conditions of the calls of a party: its ranks wait while none is fulfilled.

    The result is empty for ranks that wait for nobody.
    """
    found = []
    for call in party.calls:
        condition = _condition(call, party.ranks, world, absentees)
        if condition is None:
            return ()
        found.append(condition)
    return tuple(found)


def _is_elsewhere(communicator: Communicator | None) -> bool:
    """Return whether processes of another world are members of a communicator."""
    return communicator is not None and communicator.remote == ELSEWHERE


def _can_wait(call: MpiCall) -> bool:
    """Return whether a call can wait for another rank."""
    if call.blocking is False and call.kind not in ("test", "probe"):
        return False
    return call.kind not in ("other", "wait") and call.function != "MPI_Bsend"


def _condition(
    call: MpiCall, ranks: RankSet, world: RankSet, absentees: Absentees
) -> Condition | None:
    if _is_elsewhere(call.communicator) and _can_wait(call):
        return Condition((_ELSEWHERE,))
    if is_meeting(call):
        missing = absentees(call)
        if not missing:
            return None
        comm = group_of(call)
        known = call.kind in ("init", "finalize") or members_of(comm) is not None
        every = call.function not in ROOTED
        return Condition((Need("meeting", missing, every, communicator=comm, is_known=known),))
    if call.blocking is False and call.kind not in ("test", "probe"):
        return None
    match call.kind:
        case "recv":
            needs = [_receive(call.source, call.tag, call.communicator, world)]
        case "probe":
            needs = [_receive(call.source, call.tag, call.communicator, world)]
        case "send":
            if call.function == "MPI_Bsend":
                return None
            needs = [_send(call.dest, call.tag, call.communicator, world)]
        case "sendrecv":
            received = _receive(call.source, call.receive_tag, call.communicator, world)
            needs = [_send(call.dest, call.tag, call.communicator, world), received]
            if received is not None and call.count is not None and call.count <= _EAGER_COUNT:
                needs = [received]
            # Either part may be complete.
            parts = tuple(each for each in needs if each is not None)
            return Condition(parts, len(parts) == 1, is_exchange=True) if parts else None
        case "wait" | "test" if call.function != WIN_TEST:
            return _request_condition(call, ranks, world)
        case "comm" if call.function in CONNECTIONS:
            needs = [Need("connection", RankSet(), every=False, is_known=False)]
        case "comm" if call.function == "MPI_Intercomm_create":
            # The other group is known to the library only.
            members = members_of(call.communicator) or RankSet()
            needs = [Need("others", world - members, every=False, is_known=False)]
        case "collective" | "rma" | "comm" | "test":
            everybody = members_of(group_of(call))
            if call.group is not None and call.group.members is not None:
                everybody = RankSet.parse(call.group.members)
            if call.neighbours is not None:
                everybody = RankSet.parse(call.neighbours) if call.neighbours else RankSet()
                if not everybody - (ranks if len(ranks) == 1 else RankSet()):
                    return None
            missing = world if everybody is None else everybody
            needs = [Need("others", missing, every=False, is_known=False)]
        case "other" if call.function in _DRAINING:
            others = world - (ranks if len(ranks) == 1 else RankSet())
            needs = [Need("receiver", others, every=False, is_known=False)] if others else []
        case _:
            return None
    wanted = tuple(each for each in needs if each is not None)
    return Condition(wanted) if wanted else None


def _request_condition(call: MpiCall, ranks: RankSet, world: RankSet) -> Condition | None:
    every = call.waits_for not in ("any", "some")
    if not call.requests:
        return Condition((Need("others", world, every=False, is_known=False),))
    needs, unfinished = [], []
    for each in call.requests:
        if each.kind == "null":
            continue
        need = None if each.complete else _request(each, ranks, world)
        if need is None:
            if not every:
                return None
            continue
        needs.append(need)
        if each.complete is False:
            unfinished.append(need)
    if every and unfinished:
        return Condition(tuple(unfinished))
    # Some may be complete, and the call waits for one of the others: for all, only if each waits.
    return Condition(tuple(needs), every and len(needs) == 1) if needs else None


def _request(request: Request, ranks: RankSet, world: RankSet) -> Need | None:
    if _is_elsewhere(request.communicator):
        return _ELSEWHERE
    if request.kind in SENDS:
        return _send(request.peer, request.tag, request.communicator, world)
    if request.kind in RECEIVES:
        return _receive(request.peer, request.tag, request.communicator, world)
    members = members_of(request.communicator)
    others = (world if members is None else members) - (ranks if len(ranks) == 1 else RankSet())
    # A collective request waits for members of whom no call here says which operation they begun.
    kind: NeedKind = "meeting" if request.kind in _MEETINGS else "others"
    return Need(kind, others, every=False, communicator=request.communicator, is_known=False)


def _partners(comm: Communicator | None) -> RankSet | None:
    """Return the ranks with which a rank can exchange messages, None if they are unknown."""
    if comm is None or not comm.remote or _is_elsewhere(comm):
        return members_of(comm)
    return RankSet.parse(comm.remote)


def _receive(
    source: Peer | None, tag: Tag | None, comm: Communicator | None, world: RankSet
) -> Need | None:
    if source in (PROC_NULL, ROOT):
        return None
    if isinstance(source, int):
        return Need("message", RankSet([source]), peer=source, tag=tag, communicator=comm)
    members = _partners(comm)
    targets = world if members is None else members
    known = source == ANY_SOURCE and members is not None
    return Need(
        "message", targets, every=False, peer=source, tag=tag, communicator=comm, is_known=known
    )


def _send(
    dest: Peer | None, tag: Tag | None, comm: Communicator | None, world: RankSet
) -> Need | None:
    if dest in (PROC_NULL, ROOT):
        return None
    if isinstance(dest, int):
        return Need("receiver", RankSet([dest]), peer=dest, tag=tag, communicator=comm)
    members = _partners(comm)
    targets = world if members is None else members
    return Need(
        "receiver", targets, every=False, peer=None, tag=tag, communicator=comm, is_known=False
    )


def needs_of(conditions: Sequence[Condition]) -> Iterator[Need]:
    """Yield all needs of some conditions."""
    for each in conditions:
        yield from each.needs
