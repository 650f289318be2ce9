"""The stacks of dead ranks for the report of a run, from the core files that they have left."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pgdb.cores.policy import find_left_cores
from pgdb.cores.search import LeftBy
from pgdb.errors import PgdbError
from pgdb.frontend.run.causes import RankEnd
from pgdb.frontend.run.inspection import report_of_cores, report_of_left_cores
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.run_report import RunRecord
from pgdb.jobs.launchers import Launcher

CLOCKS_S = 60.0
"""Difference between the clocks of two hosts, in seconds, that makes no core file too old."""


async def add_cores(
    record: RunRecord, ends: Sequence[RankEnd], options: RunOptions, launcher: Launcher | None
) -> None:
    """Add to the record what the core files of ranks have, or why there are none.

    :param ends: the ends of ranks that may have left a core file.
    """
    if not ends:
        return
    hosts = sorted({each.host for each in ends})
    if hosts != [os.uname().nodename]:
        await _add_cores_of(record, hosts, ends, options, launcher)
        return
    found = find_left_cores(
        {each.directory for each in ends}, record.begun, pids={each.pid for each in ends}
    )
    if found.paths:
        _note(record, found.paths, "'pgdb core' opens them")
        try:
            record.cores = await report_of_cores(found.paths, options)
        except PgdbError as error:
            record.note(f"the core files: {error}")
    elif found.why_none:
        record.note(f"no core file: {found.why_none}")


async def _add_cores_of(
    record: RunRecord,
    hosts: Sequence[str],
    ends: Sequence[RankEnd],
    options: RunOptions,
    launcher: Launcher | None,
) -> None:
    """Add what core files on several hosts, or another one, have."""
    left_by = LeftBy(
        folders=tuple(sorted({each.directory for each in ends})),
        since_s=record.begun - CLOCKS_S,
        pids=tuple(sorted({each.pid for each in ends})),
    )
    try:
        record.cores, places = await report_of_left_cores(hosts, launcher, left_by, options)
    except PgdbError as error:
        record.note(f"the core files on {', '.join(hosts)}: {error}")
    else:
        _note(record, places, f"'pgdb core --hosts {','.join(hosts)} FILE…' opens them")


def _note(record: RunRecord, places: Sequence[str], way: str) -> None:
    text = f"core files: {', '.join(places)}"
    record.add("notice", text)
    record.note(f"{text}; {way}")
