"""The places of ranks that still run: found by a short interrupt, where that leaves the run as it
is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pgdb.frontend.analysis.still_running import StillRunning, places_of, starts_of
from pgdb.frontend.api import sampling
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

MOST_LOOKED_AT = 64
"""Ranks that PGDB looks at, those with the least numbers first."""
LOOK_S = 2.0
"""Time that a command waits for the look, in seconds; a rank may not stop, or its GDB compute."""


async def still_running(session: Session, ranks: RankSet) -> tuple[StillRunning, ...]:
    """Return where those of *ranks* are that run.

    No debugger knows the place of a process that runs, so that PGDB interrupts up to
    :data:`MOST_LOOKED_AT` ranks for a moment. They run on as before, if ``continue`` has set them
    running. A rank in a ``step`` or the like is left alone, since an interrupt ends the step.
    """
    running = ranks & (session.state.running | session.state.passing)
    continued = running & session.runs.continued
    found: tuple[StillRunning, ...] = ()
    can_look = session.options.look_at_running and not (session.is_recorded or session.has_ended)
    if can_look and (asked := first_of(continued, MOST_LOOKED_AT)):
        looked_at = await _look(session, asked) & session.state.running
        found = places_of(session.state.latest(looked_at))
    left = running - RankSet.union(each.ranks for each in found)
    found += steps_of(session, left - continued)
    left = left & session.state.running - RankSet.union(each.ranks for each in found)
    return (*found, StillRunning(left, "not looked at")) if left and found else found


def first_of(ranks: RankSet, count: int) -> RankSet:
    """Return the *count* least ranks.

    >>> first_of(RankSet.parse("0-3,9"), 2)
    RankSet('0-1')
    """
    if len(ranks) <= count:
        return ranks
    return RankSet(rank for rank, _ in zip(ranks, range(count), strict=False))


async def _look(session: Session, ranks: RankSet) -> RankSet:
    """Stop ranks for a moment; return those that have stopped, none if one does not in time."""
    # It outlives the command: a rank that stops later has to be set running again.
    look = session.runs.begin(sampling.glance(session, ranks))
    done, _ = await asyncio.wait([look], timeout=LOOK_S)
    if not done or look.exception() is not None:
        return RankSet()
    return RankSet.union(each.ranks for each in look.result().classes)


def steps_of(session: Session, ranks: RankSet) -> tuple[StillRunning, ...]:
    """Return the places from which *ranks* have begun their steps."""
    return tuple(
        each
        for word, members in session.runs.words.items()
        if (part := members & ranks)
        for each in starts_of(session.state.latest(part), word)
    )
