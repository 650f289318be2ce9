"""The hint of an attach: a job that may hang."""

from __future__ import annotations

from collections.abc import Iterable

from pgdb.frontend.analysis.why import words
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_functions import called_name, properties_of
from pgdb.ranks import RankSet
from pgdb.records import Event, Record, Stop

_WITHOUT_RANKS = ("test", "probe", "rma", "file")
"""Kinds of calls that wait for no call of another rank. Loops make them until another rank has done
its part; those of files wait for the file system."""


def hint(classes: Iterable[EquivalenceClass[Record] | EquivalenceClass[Event]]) -> str:
    """Return the hint for a job that may hang, empty for none.

    A job hangs if one rank waits in MPI for ever. Where the other ranks are says nothing: the cause
    may compute, sleep, or have ended. Ranks that die need no other explanation.
    """
    waiting, stopped = RankSet(), RankSet()
    for each in classes:
        stop = each.record
        if not isinstance(stop, Stop):
            continue
        if stop.dying:
            return ""
        stopped = stopped | each.ranks
        names = (stop.inside, stop.frame.function if stop.frame is not None else "")
        if any(map(_may_wait, names)):
            waiting = waiting | each.ranks
    if not waiting:
        return ""
    who = (
        "all ranks are in calls"
        if waiting == stopped and len(stopped) > 1
        else (
            f"{words.named(waiting)} {words.verb(waiting, 'is')} in "
            f"{'a call' if len(waiting) == 1 else 'calls'}"
        )
    )
    return f"{who} of MPI; if the job hangs, 'why' explains"


def _may_wait(symbol: str) -> bool:
    """Return whether a symbol names a function of MPI in which a rank may hang."""
    found = called_name(symbol)
    if found is None:
        return False
    kind, blocking = properties_of(found.function)
    return bool(blocking) or kind in _WITHOUT_RANKS
