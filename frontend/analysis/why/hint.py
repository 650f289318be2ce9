"""The hint of an attach: a job that may hang."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pgdb.frontend.analysis.why import words
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Event, Record, Stop

_WAITS = pattern(
    r"p?mpi_(?:recv|s?send|bsend|rsend|sendrecv|wait|test|i?probe|i?mprobe|barrier|bcast"
    r"|reduce|allreduce|gather|allgather|scatter|alltoall|scan|exscan|comm_|win_|file_|init"
    r"|finalize|neighbor|intercomm_|cart_|graph_|dist_graph|fetch_|compare_and|r?get|r?put"
    r"|r?accumulate|parrived|request_get_status)",
    re.IGNORECASE,
)
"""Calls that wait, and calls of loops that wait: tests, probes, and one-sided ones."""


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
        if any(_WAITS.match(name) for name in names):
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
