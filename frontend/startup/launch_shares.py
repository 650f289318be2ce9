"""Ranks of a held job, shared out among aggregators."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from pgdb.errors import RankSetError, StartError
from pgdb.frontend.analysis.wording import counted
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.held import HeldJob, HeldWorld
from pgdb.frontend.startup.places import Place
from pgdb.frontend.startup.session_start import Starting
from pgdb.jobs.launch_lines import LaunchLine
from pgdb.jobs.launcher_kinds import launcher_for_own
from pgdb.jobs.launchers import Launcher, find_launcher
from pgdb.overlay.messages import Find, FoundRanks, Share
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet


async def launch_shares(
    starting: Starting,
    line: LaunchLine,
    stdin: int | None,
    on_spawned: Callable[[HeldWorld], None] | None = None,
    *,
    preloaded: str = "",
) -> tuple[Share, ...]:
    """Launch a job whose ranks are held, start aggregators on its hosts, and distribute the ranks.

    With *on_spawned* the ranks of MPI_Comm_spawn are held too, and passed to it world by world.
    *preloaded* is a library for all ranks, empty for none.

    :raises StartError: if the job or the aggregators cannot be started.
    """
    session, overlay, site = starting.session, starting.overlay, starting.site
    job = await HeldJob.launch(
        session,
        starting.directory,
        line.held if on_spawned is None else line.held_by_agent,
        holds_spawned=on_spawned is not None,
        stdin=stdin,
        on_this_host_only=line.on_this_host_only,
        preloaded=preloaded,
    )
    reports = job.reports
    if on_spawned is not None:
        reports.on_spawned = on_spawned
    session.opening.stage = "the job's ranks start"
    if line.on_this_host_only:
        # The aggregators start while the ranks of the job do.
        place = Place(launcher=await _overlay_launcher(session, line.launcher))
        await _both(overlay.start(site, place), job.wait_known())
    else:
        try:
            await job.wait_known()
        except asyncio.CancelledError:
            session.opening.stage = reports.progress()
            raise
        starting.on_step(
            f"{counted(reports.size, 'rank')} held on {counted(len(reports.hosts), 'host')}"
        )
        is_local = reports.all_here and not reports.slurm_job
        launcher = line.launcher
        if reports.slurm_job:
            with contextlib.suppress(StartError):
                launcher = await asyncio.to_thread(find_launcher, "srun")
        place = Place(
            launcher=await _overlay_launcher(session, launcher),
            hosts=() if is_local else tuple(dict.fromkeys(reports.hosts.values())),
            slurm_job=reports.slurm_job,
            job_pid=session.job.pid if session.job is not None else 0,
            job_command=tuple(line.argv),
        )
        await overlay.start(site, place)
    session.opening.stage = "the aggregators look for held ranks"
    return await _held_shares(starting, job)


async def _overlay_launcher(session: Session, launcher: Launcher) -> Launcher | None:
    words = session.options.overlay_launcher
    if not words:
        return await asyncio.to_thread(launcher_for_own, launcher)
    if os.path.basename(words[0]) == "ssh":
        return None
    return await asyncio.to_thread(find_launcher, words[0])


async def _held_shares(starting: Starting, job: HeldJob) -> tuple[Share, ...]:
    """Have every aggregator report the ranks that its host holds; those are its share."""
    session, overlay = starting.session, starting.overlay
    per_host = session.options.aggregators
    shares_so_far: dict[tuple[str, ...], int] = {}
    share_of: list[int] = []
    for node in range(max(overlay.nodes) + 1):
        hello = overlay.nodes.get(node)
        key = (hello.host, *hello.names) if hello is not None else ()
        share_of.append(shares_so_far.get(key, 0))
        shares_so_far[key] = share_of[-1] + 1
    find = Find(mark=starting.directory.mark, shares=tuple(share_of), shares_per_host=per_host)
    found = await job.unless_it_ends(overlay.find(find))
    wanted = session.options.ranks
    if wanted is not None:
        held = RankSet.union(part.ranks for answer in found.values() for part in answer.jobs)
        if unknown := wanted - held:
            raise RankSetError(f"no rank {unknown}; the job has {held}")
    shares, processes = [], []
    for node, answer in sorted(found.items()):
        pids: dict[int, int] = {}
        for each in answer.jobs:  # one for each program
            part = each if wanted is None else _only(each, wanted)
            named = dict(zip(part.ranks, part.pids, strict=True))
            pids |= named
            processes += [
                RankProcess(
                    rank=rank,
                    host=overlay.nodes[node].host,
                    pid=pid,
                    executable=part.executable or job.reports.program,
                )
                for rank, pid in named.items()
            ]
        if pids:
            shares.append(Share.of(node, RankSet(pids), tuple(pids[rank] for rank in sorted(pids))))
    session.table = ProcTable(
        processes=tuple(sorted(processes, key=lambda each: each.rank)), source="held ranks"
    )
    return tuple(shares)


def _only(part: FoundRanks, wanted: RankSet) -> FoundRanks:
    """Return the wanted ones of found ranks; the aggregator releases the others."""
    pids = {rank: pid for rank, pid in zip(part.ranks, part.pids, strict=True) if rank in wanted}
    return replace(part, ranks=RankSet(pids), pids=tuple(pids.values()))


async def _both(one: Coroutine[Any, Any, None], other: Coroutine[Any, Any, None]) -> None:
    tasks = (asyncio.ensure_future(one), asyncio.ensure_future(other))
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
