"""The worlds of a launcher: its own ranks, and those that MPI_Comm_spawn has started."""

from __future__ import annotations

from collections.abc import Mapping

from pgdb.frontend.discovery.found_job import World
from pgdb.jobs import environment_scan
from pgdb.jobs.environment_scan import Processes
from pgdb.ranks import RankSet


def worlds_of(
    launcher: int, in_session: Mapping[int, int], processes: Processes | None = None
) -> tuple[World, ...]:
    """Return the worlds of a launcher's ranks on this host; empty if there is only one.

    :param in_session: the ranks of a session, by the process.
    """
    if not launcher:
        return ()
    groups = environment_scan.scan_below(launcher, processes or Processes())
    if len(groups) < 2:
        return ()
    return tuple(
        World(
            number=number,
            pids=tuple(each.pid for each in group.processes),
            ranks=RankSet(
                in_session[each.pid] for each in group.processes if each.pid in in_session
            ),
        )
        for number, group in enumerate(groups)
    )
