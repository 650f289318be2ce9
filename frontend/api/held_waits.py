"""Ranks that run and wait in MPI for held ranks: named before the user waits for ever."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.call_paths import MPI_CALL
from pgdb.frontend.analysis.still_running import StillRunning, listed
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api import absentees, whereabouts
from pgdb.frontend.api.absentees import Absent
from pgdb.frontend.api.job_state import BY_USER
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import ListMpiCalls
from pgdb.ranks import RankSet
from pgdb.records import Record

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

Classes = tuple[EquivalenceClass[Record], ...]


async def glance(session: Session, ranks: RankSet) -> tuple[Classes, Classes]:
    """List the stacks and the calls of MPI of *ranks* that run, without a report; they run on."""
    from pgdb.frontend.api import sampling

    async def look(stopped: RankSet) -> tuple[Classes, Classes]:
        stacks = (await sampling.innermost(session, stopped)).classes
        if len(session.worlds) > 1:
            return stacks, ()  # the ranks in a call are those of its own world
        with contextlib.suppress(PgdbError):
            operation = ListMpiCalls(threads=False)
            answer = await session.ask("mpi calls", operation, stopped, is_own=True)
            return stacks, answer.classes
        return stacks, ()

    return await sampling.glance_at(session, ranks, look)


def steps_beside_held(session: Session, ranks: RankSet) -> str:
    """Return that those of *ranks* that step may wait for ranks that the user holds.

    An interrupt would end the step, so that PGDB does not look where they are. Empty if none steps,
    or none is held.
    """
    state = session.state
    held = state.held_for.get(BY_USER, RankSet()) & state.stopped - state.passing
    steps = whereabouts.steps_of(session, ranks & state.running - session.runs.continued)
    if not held or not steps:
        return ""
    they_wait = "if they wait" if len(ranks) > 1 else "if it waits"
    are = by_number(held, "is", "are")
    return f"{listed(steps)}: {they_wait} in MPI, it may be for [{held}], which {are} held"


def beside_stopped(session: Session, asked: RankSet, places: Sequence[StillRunning]) -> str:
    """Return that ranks which still run may wait in MPI for stopped ones that were not *asked*.

    Empty if none may. Held ranks are not meant: :func:`waits_for_held` names those.
    """
    state = session.state
    stopped = state.stopped - state.passing - state.held - asked
    waiting = RankSet.union(each.ranks for each in places if MPI_CALL.match(each.function))
    steps = RankSet.union(each.ranks for each in places if not each.function) & state.running
    if not stopped or not (waiting or steps):
        return ""
    they = waiting or steps
    may = "may wait there" if waiting else "may wait in MPI"
    where = f"{by_number(they, 'is', 'are')} in MPI, and " if waiting else ""
    return (
        f"[{they}] {where}{may} for [{stopped}], which {by_number(stopped, 'is', 'are')} stopped; "
        f"'proc {stopped} continue' lets {by_number(stopped, 'it', 'them')} run"
    )


async def waits_for_held(session: Session, ranks: RankSet) -> tuple[Absent, ...]:
    """Return those of *ranks* that run in MPI and may wait for ranks that the user holds.

    Ranks that ``continue`` has set running are stopped for a moment, unless the option
    ``look_at_running`` is off. Others are left alone, and are none of the answer.
    """
    state = session.state
    moving = ranks & state.running & session.runs.continued - state.passing
    held = state.held_for.get(BY_USER, RankSet()) & state.stopped
    if not (held and moving and session.options.look_at_running) or session.has_ended:
        return ()
    try:
        stacks, calls = await glance(session, moving)
    except PgdbError:
        return ()
    found = absentees.waited_for(state, moving, stacks, calls)
    in_mpi = tuple(each for each in found if each.kind == "in MPI")
    # Where all wait for ranks that have stopped elsewhere, the held ones are no reason.
    return in_mpi if any(not each.awaited or each.awaited & held for each in in_mpi) else ()
