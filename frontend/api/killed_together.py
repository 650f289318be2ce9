"""Ranks that were killed together, of which none is known as the first.

MPICH's launcher and its descendants kill the other ranks of a job when one has died, or has closed
its connection. All ends look the same then. The process that the launcher names is the one whose
end it has collected first: with MPICH 4.0 that was another rank in two of three tries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pgdb.frontend.api.core import Core
from pgdb.frontend.api.notifications import Events
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit


def report(core: Core, news: Events) -> None:
    """Report that ranks were killed together; their ends are reported first."""
    state = core.state
    ended = RankSet.union(each.ranks for each in news)
    if found := of_unknown_order(news, state.latest(state.exited - ended), state.killed):
        asyncio.get_running_loop().call_soon(
            core.note,
            f"[{found}] were killed together, so the first is unknown: a launcher kills "
            "the others when one has died, and can name another one than the first. 'dmesg' names "
            "a process that the kernel has killed for want of memory",
        )


def of_unknown_order(
    events: Iterable[EquivalenceClass[Event]],
    before: Iterable[EquivalenceClass[Event]],
    killed: RankSet,
) -> RankSet:
    """Return ranks that were killed together, none of which is known as the first.

    One rank alone is the first, as one that was killed *before*. SIGKILL of the user's at *killed*
    ranks is no question.
    """
    if _killed_in(before) - killed:
        return RankSet()
    found = _killed_in(events) - killed
    return found if len(found) > 1 else RankSet()


def _killed_in(events: Iterable[EquivalenceClass[Event]]) -> RankSet:
    """Return the ranks that SIGKILL has ended, without a known reason."""
    return RankSet.union(
        each.ranks
        for each in events
        if isinstance(each.record, Exit)
        and each.record.signal == "SIGKILL"
        and not each.record.after
    )
