"""Comparison of calls: whether a send can meet a receive, and collective calls each other.

An unknown field rules nothing out: the comparison of it is None, which counts as *may be*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.mpi_calls import (
    ANY_TAG,
    ELSEWHERE,
    RECEIVES,
    SENDS,
    Communicator,
    MpiCall,
    Peer,
    Tag,
)
from pgdb.ranks import RankSet

Difference = Literal["function", "root", "operation", "count", "datatype", "communicator"]
"""The property in which collective calls differ."""

EQUAL_COUNTS = frozenset(
    {
        "MPI_Allgather",
        "MPI_Allreduce",
        "MPI_Alltoall",
        "MPI_Bcast",
        "MPI_Exscan",
        "MPI_Reduce",
        "MPI_Reduce_scatter_block",
        "MPI_Scan",
        # Functions of PyTorch.
        "all_gather_into_tensor",
        "all_reduce",
        "broadcast",
        "reduce",
    }
)
"""Functions whose counts have to agree on all ranks; those of MPI_Alltoallv need not."""
CREATES_BY_GROUP = "MPI_Comm_create_group"
"""The function that makes a communicator and is called by the members of a group alone."""
_PREDEFINED = frozenset({"MPI_COMM_WORLD", "MPI_COMM_SELF"})


class Offer(msgspec.Struct, frozen=True):
    """A send or a receive that some ranks have begun and not completed."""

    ranks: RankSet
    is_send: bool
    peer: Peer | None
    tag: Tag | None
    communicator: Communicator | None
    party: int = -1


def members_of(communicator: Communicator | None) -> RankSet | None:
    """Return the world ranks of both groups of a communicator, None if they are unknown."""
    if communicator is None or communicator.members is None:
        return None
    remote = communicator.remote
    if remote == ELSEWHERE:
        return None
    ranks = RankSet.parse(communicator.members) if communicator.members else RankSet()
    return ranks | RankSet.parse(remote) if remote else ranks


def same_communicator(one: Communicator | None, other: Communicator | None) -> bool | None:
    """Return whether two ranks mean the same communicator; None if that is unknown."""
    if one is None or other is None:
        return None
    if _without_count(one) == _without_count(other):
        return True
    if one.identity and other.identity:
        return one.identity == other.identity
    first, second = members_of(one), members_of(other)
    if first is not None and second is not None and first != second:
        return False
    if one.name and other.name and one.name != other.name:
        return False
    # A copy of a predefined communicator has the same members and no name, and some MPIs have no
    # identity that can be read.
    are_known = first is not None and second is not None
    if are_known and one.name != other.name and _PREDEFINED & {one.name, other.name}:
        return False
    return None


def _without_count(communicator: Communicator) -> Communicator:
    """Return a communicator without the number of calls, which differs between its members."""
    if communicator.collectives is None:
        return communicator
    return replace(communicator, collectives=None)


def same_tag(sent: Tag | None, received: Tag | None) -> bool | None:
    """Return whether a message's tag is that of a receive; None if that is unknown."""
    if received == ANY_TAG:
        return True
    if sent is None or received is None:
        return None
    return sent == received


def can_meet(send: Offer, receive: Offer) -> bool | None:
    """Return whether a send and a receive, whose peers fit, are the same message."""
    answers = (
        same_communicator(send.communicator, receive.communicator),
        same_tag(send.tag, receive.tag),
    )
    if False in answers:
        return False
    return None if None in answers else True


def offers_of(number: int, ranks: RankSet, calls: Sequence[MpiCall]) -> Iterator[Offer]:
    """Yield the sends and receives of the calls of a party."""
    for call in calls:
        comm = call.communicator
        if call.kind in ("send", "sendrecv"):
            yield Offer(ranks, True, call.dest, call.tag, comm, number)
        if call.kind == "sendrecv":
            yield Offer(ranks, False, call.source, call.receive_tag, comm, number)
        if call.kind == "recv":
            yield Offer(ranks, False, call.source, call.tag, comm, number)
        for each in call.requests:
            if each.complete or each.kind is None:
                continue
            if each.kind in SENDS or each.kind in RECEIVES:
                is_send = each.kind in SENDS
                yield Offer(ranks, is_send, each.peer, each.tag, each.communicator, number)


def difference_of(one: MpiCall, other: MpiCall) -> Difference | None:
    """Return the first property in which two collective calls differ, None for equal ones.

    A property that is unknown on either side does not differ.
    """
    if same_communicator(group_of(one), group_of(other)) is False:
        return "communicator"
    if one.function != other.function:
        return "function"
    is_across = any(each and each.remote for each in (one.communicator, other.communicator))
    if not is_across and _differ(one.root, other.root):
        return "root"
    if _differ(one.operation, other.operation):
        return "operation"
    if one.function in EQUAL_COUNTS:
        # Two integers may be one pair: with other datatypes, other counts may be as long.
        datatypes_differ = _differ(one.datatype, other.datatype)
        if one.datatype == other.datatype and _differ(one.count, other.count):
            return "count"
        if datatypes_differ and one.count == other.count:
            return "datatype"
    return None


def plain(call: MpiCall) -> MpiCall:
    """Return a collective call without the fields in which its members may differ."""
    has_counts = call.function in EQUAL_COUNTS
    communicator = call.communicator
    if communicator is not None:
        communicator = _without_count(communicator)
    return MpiCall(
        function=call.function,
        kind=call.kind,
        communicator=communicator,
        root=call.root,
        operation=call.operation,
        count=call.count if has_counts else None,
        datatype=call.datatype if has_counts else None,
        window=call.window,
        file_handle=call.file_handle,
        group=call.group,
    )


def group_of(call: MpiCall) -> Communicator | None:
    """Return the communicator of a collective call, or the group of its window or file.

    MPI_Comm_create_group is a call of the members of its group alone.
    """
    if call.function == CREATES_BY_GROUP and call.group is not None:
        return Communicator(name="the group", members=call.group.members)
    if call.communicator is not None:
        return call.communicator
    for group in (call.window, call.file_handle):
        if group is not None:
            kind = "window" if call.window is not None else "file"
            name = f"{kind} {group.name}".strip()
            return Communicator(name=name, members=group.members, identity=group.identity)
    return None


def _differ(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other
