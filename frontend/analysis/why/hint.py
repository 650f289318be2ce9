"""The hint of an attach: a job that may hang."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Event, Record, Stop

HINT = "all ranks are in calls of MPI; if the job hangs, 'why' explains"
_WAITS = pattern(
    r"p?mpi_(?:recv|s?send|bsend|rsend|sendrecv|wait|probe|mprobe|barrier|bcast|reduce|allreduce"
    r"|gather|allgather|scatter|alltoall|scan|exscan|comm_|win_|file_|init|finalize|neighbor)",
    re.IGNORECASE,
)


def may_hang(classes: Iterable[EquivalenceClass[Record] | EquivalenceClass[Event]]) -> bool:
    """Return whether all of several ranks were stopped inside calls of MPI that can wait."""
    ranks = RankSet()
    for each in classes:
        stop = each.record
        if not isinstance(stop, Stop) or stop.frame is None or stop.dying:
            return False
        if not any(_WAITS.match(name) for name in (stop.inside, stop.frame.function)):
            return False
        ranks = ranks | each.ranks
    return len(ranks) > 1
