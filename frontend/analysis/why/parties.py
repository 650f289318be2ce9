"""Parties: ranks in the same state, the nodes of the wait-for graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.why import operations
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import MpiCall, MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record

Absence = Literal["", "ended", "lost", "detached", "running", "silent", "failed"]
"""The reason why the state of ranks is unknown; ``ended`` ranks never communicate again."""

UNKNOWN = MpiCallStatus(state="unknown")
_FEW_PARTIES = 256
_READS = frozenset({"MPI_Get", "MPI_Rget", "MPI_Compare_and_swap"})
_FETCHES = frozenset({"MPI_Fetch_and_op", "MPI_Get_accumulate", "MPI_Rget_accumulate"})
"""Functions that read, and that leave the place as it is with MPI_NO_OP alone."""
_TO_TARGETS = (
    *sorted(_READS | _FETCHES),
    "MPI_Win_flush",
    "MPI_Win_lock",
    "MPI_Win_sync",
    "MPI_Win_unlock",
)
"""Beginnings of the names of the functions of a loop that reads a window."""


class Elsewhere(msgspec.Struct, frozen=True):
    """Ranks about which the session knows more than their calls say."""

    ranks: RankSet
    text: str
    """The reason in words, such as ``ended with status 0`` or ``stopped at breakpoint 1``."""
    absence: Absence = ""
    """Empty for ranks that a breakpoint, a signal or a hold has stopped."""


class Party(msgspec.Struct, frozen=True):
    """Ranks in the same state."""

    ranks: RankSet
    status: MpiCallStatus = UNKNOWN
    absence: Absence = ""
    text: str = ""
    """The end of absent ranks, or the reason of a stop, in words; empty for any other."""

    @property
    def is_dead(self) -> bool:
        """Whether the ranks will take part in no communication any longer."""
        return self.absence == "ended" or self.status.state == "after_finalize"

    @property
    def calls(self) -> tuple[MpiCall, ...]:
        """The calls of all threads, of ranks whose main thread is in a call; else empty.

        A rank that a breakpoint or a signal has stopped does not do its part of a call: others wait
        for it, and it waits for nobody.
        """
        if self.absence or self.text or self.status.state != "in_call":
            return ()
        return self.status.calls

    @property
    def call(self) -> MpiCall | None:
        """The call of the main thread."""
        return self.calls[0] if self.calls else None

    @property
    def is_polling(self) -> bool:
        """Whether the ranks test requests, or probe, without waiting; they may make several such
        calls, one after the other."""
        return bool(self.calls) and all(
            not each.thread and each.blocking is False and each.kind in ("test", "probe")
            for each in self.calls
        )

    @property
    def is_passing(self) -> bool:
        """Whether the ranks are in a call that waits for nobody, such as MPI_Win_sync."""
        return bool(self.calls) and is_passing(self.status)


def is_passing(status: MpiCallStatus) -> bool:
    """Return whether a rank is in calls that wait for nobody."""
    return bool(status.calls) and all(
        each.blocking is False and each.kind not in ("test", "probe") for each in status.calls
    )


def is_read(status: MpiCallStatus) -> bool:
    """Return whether a rank reads a known place of a window, and leaves it as it is."""
    made = status.call
    if made is None or made.thread or made.dest is None or made.displacement is None:
        return False
    return made.function in _READS or (made.function in _FETCHES and made.operation == "MPI_NO_OP")


def is_one_sided(status: MpiCallStatus) -> bool:
    """Return whether a rank is in a one-sided call to a target, or waits for one, as in a loop that
    reads a flag."""
    made = status.call
    if made is None or made.thread:
        return False
    if made.kind == "wait":
        return any(each.kind == "rma" for each in made.requests)
    return made.kind == "rma" and made.function.startswith(_TO_TARGETS)


def parties_of(
    classes: Iterable[EquivalenceClass[Record]], elsewhere: Sequence[Elsewhere] = ()
) -> tuple[Party, ...]:
    """Return the parties of an answer, and those of ranks that gave none.

    Ranks in *elsewhere* with an absence are parties of their own, whatever the answer says.
    """
    classes = tuple(classes)
    partial = operations.left_out(classes)
    found = [Party(each.ranks, absence=each.absence, text=each.text) for each in elsewhere]
    found = [each for each in found if each.absence and each.ranks]
    absent = RankSet.union(each.ranks for each in found)
    for each in classes:
        ranks, record = each.ranks - absent, each.record
        if not ranks:
            continue
        if not isinstance(record, MpiCallStatus):
            text = record.message if isinstance(record, Failure) else ""
            found.append(Party(ranks, absence="failed", text=text))
            continue
        record = operations.whole(record, partial)
        for other in elsewhere:
            if not other.absence and (part := ranks & other.ranks):
                found.append(Party(part, record, text=other.text))
                ranks = ranks - part
        if ranks:
            found.append(Party(ranks, record))
    return tuple(sorted(found, key=lambda each: each.ranks.first))


def finder(parties: Sequence[Party]) -> Callable[[int], int | None]:
    """Return a function that returns the number of a rank's party, None for no rank of any."""
    if len(parties) <= _FEW_PARTIES:

        def find(rank: int) -> int | None:
            return next((n for n, each in enumerate(parties) if rank in each.ranks), None)

        return find
    table = {rank: number for number, each in enumerate(parties) for rank in each.ranks}
    return table.get


def part(party: Party, ranks: RankSet) -> Party:
    """Return the part of a party that is in *ranks*."""
    return replace(party, ranks=party.ranks & ranks)
