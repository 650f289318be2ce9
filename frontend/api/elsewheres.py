"""Ranks about which a session knows more than their calls of MPI say: stopped, held, or gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.why.parties import Absence, Elsewhere
from pgdb.frontend.api import absentees
from pgdb.mpi_calls import MpiCallStatus
from pgdb.ranks import RankSet
from pgdb.records import Stop, is_error

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

FROM_OUTSIDE = ("interrupted", "attached")
"""Reasons of the stops that PGDB has made."""
_AT_START = ("main", "entry", "exec")
_ABSENCES: dict[str, Absence] = {"ended": "ended", "lost": "lost", "detached": "detached"}


def found(
    session: Session, answer: Answer, *, absent: RankSet, signalled: RankSet, held: RankSet
) -> Iterator[Elsewhere]:
    """Yield the ranks without a status in *answer*, and those that are stopped for a reason.

    :param absent: the ranks that were not asked.
    :param signalled: the ranks that a signal which is no error has stopped.
    :param held: the ranks that run commands leave where they are. Held in a call of MPI, a rank may
        have done its part of the call.
    """
    worlds, state, missing = session.all_worlds, session.state, answer.missing
    if not worlds.known:
        yield Elsewhere(worlds.headless, worlds.headless_text, "ended")
        gone = worlds.ended - worlds.headless - session.set
        yield Elsewhere(gone, "ended before the session began", "ended")
    for each in absentees.gone(state, session.set):
        # 'has ended' becomes 'ended', which a sentence goes on with.
        text = each.text.removeprefix("has ").removeprefix("have ")
        if each.kind == "error":
            yield Elsewhere(each.ranks, text)
        else:
            plain = text if each.kind == "ended" else ""
            yield Elsewhere(each.ranks, plain, _ABSENCES[each.kind])
    yield Elsewhere(missing.running, "", "running")
    yield Elsewhere(missing.late, "", "silent")
    yield Elsewhere(missing.lost - absent, "", "lost")
    in_call = ranks_in(answer, is_in_call)
    # A signal to all ranks, as a launcher sends it, has changed nothing about their calls.
    is_signalled = in_call <= signalled
    for latest in state.latest(state.stopped):
        stop, ranks = latest.record, latest.ranks
        if isinstance(stop, Stop) and stop.was_stopped:
            yield Elsewhere(ranks, "stopped by a signal that came before PGDB")
        elif not isinstance(stop, Stop) or stop.reason == "core":
            continue
        elif stop.reason in FROM_OUTSIDE:
            yield Elsewhere(ranks & held - in_call, "held")
        elif not is_error(stop) and not (is_signalled and stop.signal):
            is_there = session.has_breakpoints(ranks, stop.breakpoint)
            text = _stopped(stop, breakpoint_is_there=is_there)
            yield Elsewhere(ranks & held, f"{text} and held")
            yield Elsewhere(ranks - held, text)


def ranks_in(answer: Answer, is_so: Callable[[MpiCallStatus], bool]) -> RankSet:
    """Return the ranks whose status is so."""
    return RankSet.union(
        each.ranks
        for each in answer.classes
        if isinstance(each.record, MpiCallStatus) and is_so(each.record)
    )


def is_in_call(status: MpiCallStatus) -> bool:
    """Return whether a rank is in a call of MPI."""
    return status.state == "in_call"


def _stopped(stop: Stop, *, breakpoint_is_there: bool) -> str:
    if stop.breakpoint:
        number = f"breakpoint {stop.breakpoint}"
        return f"stopped at {number if breakpoint_is_there else 'a breakpoint'}"
    if stop.reason in _AT_START:
        return "stopped at its start"
    return f"stopped by {stop.signal}" if stop.signal else "stopped by a command"
