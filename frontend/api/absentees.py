"""Ranks that are not at a barrier, and the reason why: where they are, or how they have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis.ways import ways_of
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api.breakpoint_journal import BreakpointJournal
from pgdb.frontend.api.job_state import JobState
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Exit, Record, Stop, is_error

AbsenceKind = Literal[
    "ended", "error", "lost", "detached", "stopped", "held", "in MPI", "running", "disabled"
]
"""Reasons why a rank is not at a barrier; the first four are for ever."""
BarrierThen = Literal["stop", "release"]
"""The effect of a barrier when all ranks have come: they stay stopped, or run on."""
_MPI_CALL = pattern(r"(?:P?MPIX?_|p?mpi_)\w")


class Absent(msgspec.Struct, frozen=True):
    """Ranks that are not at a barrier for one reason."""

    ranks: RankSet
    kind: AbsenceKind
    text: str
    """The reason in words, such as ``is in MPI_Recv from 0, and may wait for [0], which is held``.
    """
    awaited: RankSet = RankSet()
    """The ranks that they may wait for in MPI, if all of these are known."""


class Barrier(msgspec.Struct, frozen=True):
    """A barrier at one moment."""

    number: int
    """The number of its breakpoint."""
    location: str
    """The place, as it was given."""
    ranks: RankSet
    """The ranks that are to meet."""
    condition: str = ""
    """The condition of its breakpoint now; where ranks differ, each with its ranks."""
    then: BarrierThen = "stop"
    times: int = 0
    """The number of times after which it is deleted; 0 if it stays."""
    met: int = 0
    """The number of times that all ranks have met that could come."""
    incomplete: int = 0
    """The number of these times at which a rank was missing that could not come any more."""
    arrived: RankSet = RankSet()
    """The ranks that are held at it now."""
    disabled: RankSet = RankSet()
    """The ranks on which its breakpoint is disabled: they pass it."""
    absent: tuple[Absent, ...] = ()
    """The ranks that are not there, as far as that was looked at."""


def listed(absent: Iterable[Absent]) -> str:
    """Return the ranks that are not there, with the reasons."""
    return "; ".join(f"[{each.ranks}] {each.text}" for each in absent)


def passing_it(ranks: RankSet, number: int) -> Absent:
    """Return the absence of *ranks* on which the breakpoint of a barrier is disabled."""
    return Absent(ranks, "disabled", f"cannot come: breakpoint {number} is disabled")


def in_order(absent: Iterable[Absent]) -> tuple[Absent, ...]:
    """Return the ranks that are not there, least rank first."""
    return tuple(sorted(absent, key=lambda each: each.ranks.first))


def gone(state: JobState, ranks: RankSet) -> tuple[Absent, ...]:
    """Return those of *ranks* that will never come to a barrier."""
    # Ranks that several commands have set running can have equal ends.
    ends: dict[str, RankSet] = {}
    for each in state.latest(ranks & state.exited):
        if isinstance(each.record, Exit):
            end = _end(each.record)
            ends[end] = ends.get(end, RankSet()) | each.ranks
    found = [
        Absent(part, "ended", f"{by_number(part, 'has', 'have')} {end}")
        for end, part in ends.items()
    ]
    found += [
        Absent(each.ranks, "error", _fault(each.record))
        for each in state.latest(ranks & state.stopped)
        if isinstance(each.record, Stop) and is_error(each.record)
    ]
    known = RankSet.union(each.ranks for each in found)
    if unknown := ranks & state.exited - known:
        found.append(Absent(unknown, "ended", f"{by_number(unknown, 'has', 'have')} ended"))
    if lost := ranks & state.lost:
        found.append(Absent(lost, "lost", f"{by_number(lost, 'is', 'are')} lost"))
    if detached := ranks & state.detached:
        found.append(Absent(detached, "detached", f"{by_number(detached, 'is', 'are')} detached"))
    return in_order(found)


def waited_for(
    state: JobState,
    ranks: RankSet,
    stacks: Sequence[EquivalenceClass[Record]],
    calls: Sequence[EquivalenceClass[Record]] = (),
    journal: BreakpointJournal | None = None,
    before: Sequence[EquivalenceClass[Record]] = (),
) -> tuple[Absent, ...]:
    """Return where *ranks* are that can still come to a barrier.

    *stacks* and *calls* of MPI are of those that run, as far as they are known, and the calls
    *before* are of a while ago, when the same ranks were held. A rank that is
    held, or stopped elsewhere, has to be set running by the user. Without a *journal* no breakpoint
    is named.
    """
    found = list(_held(state, ranks))
    left = ranks - RankSet.union(each.ranks for each in found)
    if calls:
        for absent in _on_the_way(state, calls, before):
            if part := absent.ranks & left & state.running:
                found.append(replace(absent, ranks=part))
                left -= part
    looked_at = RankSet()
    in_function: dict[str, list[RankSet]] = {}
    # An interrupt may have stopped some since the look.
    moving = left - (state.stopped - state.passing)
    for way in ways_of(stacks):
        part = way.ranks & moving
        looked_at |= part
        if part:
            in_function.setdefault(way.function, []).append(part)
    for function, parts in in_function.items():
        part = RankSet.union(parts)
        if _MPI_CALL.match(function):
            verb = by_number(part, "is", "are")
            text = f"{verb} in {function}, for ranks that are unknown, and may wait for a held one"
            found.append(Absent(part, "in MPI", text))
        else:
            verb = by_number(part, "runs", "run")
            found.append(Absent(part, "running", f"{verb}, in {function}"))
    left -= looked_at
    found += _elsewhere(state, left, journal)
    if running := left & state.running:
        found.append(Absent(running, "running", by_number(running, "runs", "run")))
    return in_order(found)


def _on_the_way(
    state: JobState,
    calls: Sequence[EquivalenceClass[Record]],
    before: Sequence[EquivalenceClass[Record]],
) -> Iterator[Absent]:
    # A barrier that meets needs none of this, and every start would pay for it.
    from pgdb.frontend.analysis.why.on_the_way import on_the_way

    asked = RankSet.union(each.ranks for each in calls)
    stand = state.stopped - asked
    held = state.held & stand
    for each in on_the_way(calls, held, stand, state.exited, state.ranks, before):
        kind: AbsenceKind = "in MPI" if each.is_stuck else "running"
        yield Absent(each.ranks, kind, each.text, each.awaited)


def _held(state: JobState, ranks: RankSet) -> Iterator[Absent]:
    for reason, held in state.held_for.items():
        if part := ranks & held & state.stopped:
            where = f"at {reason}" if reason.startswith("barrier") else "by 'hold'"
            ranks -= part
            yield Absent(part, "held", f"{by_number(part, 'is', 'are')} held {where}")


def are_outdated(absent: Iterable[Absent], held_then: RankSet, state: JobState) -> bool:
    """Return whether held ranks that others were waiting for have been released.

    *held_then* are the ranks that were held at the report.
    """
    released = held_then - state.held
    for each in absent:
        if each.kind == "held" and each.ranks & released:
            return True
        # Where the ranks of a call are unknown, each held one may be waited for.
        if each.kind == "in MPI" and released & (each.awaited or released):
            return True
    return False


def renewed(
    absent: Iterable[Absent], state: JobState, journal: BreakpointJournal
) -> tuple[Absent, ...]:
    """Return the reasons as they are now, when breakpoints may have been deleted since."""
    found: list[Absent] = []
    for each in absent:
        if each.kind == "stopped" and each.ranks <= state.stopped:
            found += _elsewhere(state, each.ranks, journal)
        else:
            found.append(each)
    return in_order(found)


def _elsewhere(
    state: JobState, ranks: RankSet, journal: BreakpointJournal | None
) -> Iterator[Absent]:
    for each in state.latest(ranks & state.stopped):
        if isinstance(stop := each.record, Stop):
            for part, at in _stopped_at(each.ranks, stop, journal):
                text = f"{by_number(part, 'is', 'are')} stopped{at}{_place(stop)}"
                yield Absent(part, "stopped", text)


def _stopped_at(
    ranks: RankSet, stop: Stop, journal: BreakpointJournal | None
) -> Iterator[tuple[RankSet, str]]:
    """Yield the breakpoint of a stop in words, with the ranks; empty words if there was none.

    The number is left out on ranks that do not have the breakpoint any longer.
    """
    if not stop.breakpoint:
        yield ranks, ""
        return
    has = ranks & journal.ranks_of(stop.breakpoint) if journal is not None else RankSet()
    if has:
        yield has, f" at breakpoint {stop.breakpoint}"
    if rest := ranks - has:
        yield rest, " at a breakpoint"


def _place(stop: Stop) -> str:
    if stop.frame is None:
        return ""
    line = f" at {stop.frame.file}:{stop.frame.line}" if stop.frame.line else ""
    return f" in {stop.frame.function}{line}"


def _fault(stop: Stop) -> str:
    if stop.signal:
        return f"stopped by {stop.signal}"
    return f"stopped: {stop.dying or stop.event or 'about to die'}"


def _end(end: Exit) -> str:
    if end.signal:
        return f"ended by {end.signal}"
    return "ended" if end.code is None else f"ended with status {end.code}"
