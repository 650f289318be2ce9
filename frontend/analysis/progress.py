"""Progress of a running job: places of ranks in several samples, and ranks that fall behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from pgdb.mpi_calls import Activity, CallSite, MpiCall, MpiCallStatus
from pgdb.ranks import RankSet

Symbol = Literal["#", "z", "i", "l", "p", "!", "=", ">", "-", "x", "?"]
SYMBOLS: dict[Symbol, str] = {
    "#": "computes",
    "z": "sleeps",
    "i": "in I/O",
    "l": "waits for a lock or a thread",
    "p": "in Python",
    "!": "dies or exits",
    "=": "waits in the same call of MPI as before",
    ">": "in a call of MPI, another than before",
    "-": "stopped",
    "x": "ended",
    "?": "not seen",
}
"""One letter for each state of a rank in a sample, and its meaning."""
_OUTSIDE: dict[Activity, Symbol] = {
    "sleeping": "z",
    "io": "i",
    "lock": "l",
    "deadlock": "l",
    "thread": "l",
    "python": "p",
    "dying": "!",
    "exiting": "!",
}
_AWAY = frozenset("#zilp!")
_MOST_IN_MPI = 0.2
"""Ranks that are behind are in MPI in no larger part of the samples, and the others in no smaller
one outside."""


class Sample(msgspec.Struct, frozen=True):
    """The states of ranks at one moment."""

    at_s: float
    """Time after the first sample, in seconds."""
    classes: tuple[tuple[MpiCallStatus, RankSet], ...]
    stopped: RankSet = RankSet()
    """Ranks that do not run."""
    ended: RankSet = RankSet()


class Row(msgspec.Struct, frozen=True):
    """Ranks with equal states in all samples."""

    ranks: RankSet
    symbols: str
    """A letter of :data:`SYMBOLS` for each sample."""
    last: MpiCallStatus | None
    """The last state that was seen."""


class Progress(msgspec.Struct, frozen=True):
    """Rows of ranks, the largest first, and what follows from them."""

    rows: tuple[Row, ...]
    times_s: tuple[float, ...]
    recorded: bool = False
    """Whether the recorder of MPI calls gave the samples, so that no rank was stopped."""
    behind: RankSet = RankSet()
    """Ranks that are outside MPI in nearly all samples, while all others wait in MPI."""

    @property
    def stands_still(self) -> bool:
        """Whether every rank was in the same call in all samples after the first."""
        return len(self.times_s) > 1 and all(set(each.symbols[1:]) == {"="} for each in self.rows)


def progress(samples: Sequence[Sample], ranks: RankSet, *, recorded: bool = False) -> Progress:
    """Return the rows of ranks over samples."""
    parts: list[tuple[RankSet, str, MpiCallStatus | None, MpiCallStatus | None]]
    parts = [(ranks, "", None, None)]
    for sample in samples:
        refined: list[tuple[RankSet, str, MpiCallStatus | None, MpiCallStatus | None]] = []
        for members, symbols, before, last in parts:
            for some, status, symbol in _split(sample, members, before):
                refined.append((some, symbols + symbol, status, status or last))
        parts = refined
    rows: dict[str, tuple[RankSet, MpiCallStatus | None]] = {}
    for members, symbols, _, last in parts:
        known = rows.get(symbols)
        rows[symbols] = (members, last) if known is None else (known[0] | members, known[1] or last)
    found = tuple(Row(some, symbols, last) for symbols, (some, last) in rows.items())
    ordered = tuple(sorted(found, key=lambda each: (-len(each.ranks), min(each.ranks))))
    times_s = tuple(each.at_s for each in samples)
    return Progress(ordered, times_s, recorded=recorded, behind=_behind(ordered))


def _split(
    sample: Sample, members: RankSet, before: MpiCallStatus | None
) -> Iterable[tuple[RankSet, MpiCallStatus | None, Symbol]]:
    """Yield the parts of some ranks with equal states in a sample."""
    left = members
    for status, ranks in sample.classes:
        if some := left & ranks - sample.stopped:
            left = left - some
            yield some, status, _symbol(status, before)
    others: tuple[tuple[RankSet, Symbol], ...] = (
        (sample.ended, "x"),
        (sample.stopped, "-"),
        (members, "?"),
    )
    for ranks, symbol in others:
        if some := left & ranks:
            left = left - some
            yield some, None, symbol


def _symbol(status: MpiCallStatus, before: MpiCallStatus | None) -> Symbol:
    call = status.call
    if call is not None and status.moved is not None:
        return "=" if not status.moved and before is not None and before.call is not None else ">"
    if status.state != "in_call" or call is None:
        return _OUTSIDE.get(status.activity, "#")
    if before is None or before.call is None or _place(before) != _place(status):
        return ">"
    return "=" if _is_same(before.call, call) else ">"


def _place(status: MpiCallStatus) -> tuple[CallSite | None, str]:
    return status.where, status.call.function if status.call is not None else ""


def _is_same(before: MpiCall, now: MpiCall) -> bool:
    """Return whether two calls of one place can be the same: counts of a recorder decide."""
    if before.communicator is None or now.communicator is None:
        return True
    return before.communicator.collectives == now.communicator.collectives


def _behind(rows: Sequence[Row]) -> RankSet:
    """Return the ranks that are outside MPI while all others wait in MPI; none if unclear."""
    behind, waiting = [], []
    for row in rows:
        letters = row.symbols[1:] or row.symbols
        if set(letters) <= {"x"}:
            continue
        in_mpi = sum(letter in "=>" for letter in letters) / len(letters)
        away = sum(letter in _AWAY for letter in letters) / len(letters)
        if away >= 1 - _MOST_IN_MPI:
            behind.append(row.ranks)
        elif in_mpi >= 1 - _MOST_IN_MPI:
            waiting.append(row.ranks)
        else:
            return RankSet()
    late, others = RankSet.union(behind), RankSet.union(waiting)
    return late if others and len(late) <= len(others) else RankSet()
