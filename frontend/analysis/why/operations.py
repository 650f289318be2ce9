"""Operations of a library above MPI in place of the calls of MPI that are parts of them.

The members of a communicator make such an operation together, as they make a collective call. A
message that it lacks is the part of a member that has left the operation out. Where all members are
in it, only its messages show for what they wait.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from pgdb.frontend.analysis.why.matching import members_of
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import MpiCall, MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Record

EARLY = frozenset({"Comm.exscan", "Comm.reduce", "Comm.scan"})
"""Operations that a member may leave before others have come."""
Key = tuple[str, str]
"""The name of an operation, and the members of its communicator."""


def left_out(classes: Iterable[EquivalenceClass[Record]]) -> frozenset[Key]:
    """Return the operations that some members are in, and others not."""
    inside: dict[Key, RankSet] = {}
    everybody: dict[Key, RankSet] = {}
    for each in classes:
        for made in each.record.calls if isinstance(each.record, MpiCallStatus) else ():
            members = members_of(made.communicator)
            if made.part_of and members is not None:
                key = (made.part_of, str(members))
                inside[key] = inside.get(key, RankSet()) | each.ranks
                everybody[key] = members
    return frozenset(key for key, ranks in inside.items() if everybody[key] - ranks)


def whole(status: MpiCallStatus, operations: frozenset[Key]) -> MpiCallStatus:
    """Return a status with the *operations* in place of calls of MPI that are parts of them."""
    if not any(each.part_of for each in status.calls):
        return status
    return replace(status, calls=tuple(_whole(each, operations) for each in status.calls))


def _whole(made: MpiCall, operations: frozenset[Key]) -> MpiCall:
    if (made.part_of, str(members_of(made.communicator))) not in operations:
        return made
    receives = made.kind in ("recv", "sendrecv") and isinstance(made.source, int)
    return MpiCall(
        function=made.part_of,
        kind="collective",
        blocking=True,
        where=made.where,
        thread=made.thread,
        communicator=made.communicator,
        awaits=str(made.source) if receives and made.part_of in EARLY else None,
    )
