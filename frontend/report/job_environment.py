"""The environment of a job's ranks, from the host of a rank or from its core file."""

from __future__ import annotations

from pgdb.cores.core_file import CoreFileError, environment_of_core
from pgdb.errors import PgdbError
from pgdb.frontend.api.session import Session
from pgdb.frontend.discovery.mpir import is_this_host
from pgdb.frontend.report.environment import environment_of
from pgdb.frontend.report.model import Environment
from pgdb.jobs import procfs
from pgdb.overlay.operations import ReadFile
from pgdb.proctable import RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Block

MOST_BYTES = 1 << 22
"""Largest environment that another host sends; the kernel allows 6 MiB together with the
arguments."""
_MOST_ASKED = 4
"""Most ranks of other hosts that are asked, until one answers."""


async def rank_environment(session: Session) -> tuple[Environment | None, dict[str, str]]:
    """Return the environment of a rank, without secrets and as it is; None if no rank has one.

    A rank of this host comes first: its environment crosses no network.
    """
    if session.is_recorded:
        return None, {}
    live = [each for each in session.table.processes if each.rank in session.state.live]
    asked = 0
    for process in sorted(live, key=lambda each: not is_this_host(each.host)):
        place = f"process {process.pid} on {process.host}"
        is_here = is_this_host(process.host)
        is_core = process.rank in session.core_files
        if is_core:
            place = f"process {process.pid}, from its core file"
            place += "" if is_here else f" on {process.host}"
        if is_core and is_here:
            try:
                variables = environment_of_core(session.core_files[process.rank])
            except CoreFileError:
                continue
        elif is_here and procfs.on_this_host(process.pid):
            variables = procfs.environment(process.pid) or {}
        elif asked < _MOST_ASKED:
            asked += 1
            variables = await _asked(session, process)
        else:
            break
        if variables:
            return environment_of(variables, f"rank {process.rank}, {place}"), variables
    return None, {}


async def _asked(session: Session, process: RankProcess) -> dict[str, str]:
    """Return the environment of a rank of another host; empty if it does not answer."""
    operation = ReadFile(path=f"/proc/{process.pid}/environ", most_bytes=MOST_BYTES)
    try:
        answer = await session.ask("", operation, RankSet([process.rank]), is_own=True)
    except PgdbError:
        return {}
    data = next(
        (each.record.data for each in answer.classes if isinstance(each.record, Block)), b""
    )
    return procfs.variables_in(data)
