"""Ranks of a running job, shared out among aggregators."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pgdb.errors import (
    DiscoveryError,
    PermissionToTraceError,
    RankSetError,
    StartError,
)
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.discovery.found_job import FoundJob
from pgdb.frontend.startup.logged_start import OnStep
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.startup.places import Place
from pgdb.frontend.startup.site import Located, Site
from pgdb.frontend.startup.starting import Starting, count
from pgdb.overlay import addresses
from pgdb.overlay.messages import Find, FoundRanks, Hello, Share
from pgdb.overlay.topology import share_out
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet


async def place_for(site: Site, located: Located, options: SessionOptions) -> Place:
    """Return the place for the aggregators of a job.

    :raises PermissionToTraceError: if PGDB may not attach to any rank.
    """
    job = located.job
    if located.refusals:
        raise PermissionToTraceError(f"none of the ranks can be attached to: {located.refusals[0]}")
    wanted = None if is_partial(located) else _wanted(job.table.ranks, options.ranks)
    hosts = job.table.only(wanted).hosts if wanted is not None else job.hosts
    all_here = wanted is not None and not wanted - job.local_ranks
    return Place(
        launcher=await site.choose_launcher(options.overlay_launcher, located),
        hosts=() if all_here and not job.slurm_job else hosts,
        slurm_job=job.slurm_job,
        job_pid=job.launcher_pid,
        job_command=job.command,
        local_pid=_local_pid(job, options) if not options.host else 0,
    )


def _local_pid(job: FoundJob, options: SessionOptions) -> int:
    """Return the process of a rank of this host, 0 if each aggregator would have one rank."""
    if len(job.local_ranks) < 2 * options.aggregators:
        return 0
    first = job.local_ranks.first
    return next((each.pid for each in job.table.processes if each.rank == first), 0)


def with_fewer_aggregators(
    located: Located, options: SessionOptions, on_step: OnStep
) -> SessionOptions:
    """Return the options with at most one aggregator per known rank of a host."""
    if is_partial(located):
        return options
    table = located.job.table
    table = table.only(_wanted(table.ranks, options.ranks))
    most = max(Counter(each.host for each in table.processes).values(), default=1)
    if options.aggregators <= most:
        return options
    on_step(f"note: {count(most, 'aggregator')} on a host, not {options.aggregators}: one per rank")
    return replace(options, aggregators=most)


def is_partial(located: Located) -> bool:
    """Return whether the aggregators have to search for ranks."""
    job = located.job
    return not job.table.processes or (located.lacks_ranks and len(job.hosts) > 1)


def _wanted(has: RankSet, ranks: RankSet | None) -> RankSet:
    if ranks is not None and (unknown := ranks - has):
        raise RankSetError(f"no rank {unknown}; the job has {has}")
    return has if ranks is None else ranks


def found_text(located: Located, place: Place) -> str:
    """Return the result of the search, for the user."""
    job = located.job
    hosts = count(max(1, len(place.hosts)), "host")
    if not job.table.processes:
        return f"found a job on {hosts} ({job.table.source}); its ranks are looked for there"
    ranks = count(len(job.table.processes), "rank")
    if is_partial(located):
        return (
            f"found {ranks} of {job.job_size} ({job.table.source}); the others are looked for on "
            f"{hosts}"
        )
    return f"found {ranks} on {hosts} ({job.table.source})"


async def attach_shares(starting: Starting, located: Located) -> tuple[Share, ...]:
    """Distribute the ranks among the aggregators of their hosts."""
    session, overlay, table = starting.session, starting.overlay, located.job.table
    options = session.options
    if is_partial(located):
        found = await _find_everywhere(starting, located.job.selector)
        others = table.only(table.ranks - found.ranks).processes
        table = ProcTable(
            processes=tuple(sorted((*found.processes, *others), key=lambda each: each.rank)),
            source=found.source,
        )
    wanted = _wanted(table.ranks, options.ranks)
    table = table.only(wanted)
    shares: list[Share] = []
    reached: list[RankProcess] = []
    for host in table.hosts:
        nodes = _nodes_of(host, overlay, len(table.hosts))
        members = [each for each in table.processes if each.host == host]
        if not nodes:
            ranks = RankSet(each.rank for each in members)
            why = overlay.failed.get(host, "no aggregator came up there")
            starting.on_step(f"note: ranks [{ranks}] on {host} are lost: {why}")
            continue
        reached += members
        pids = {each.rank: each.pid for each in members}
        for node, part in zip(nodes, share_out(RankSet(pids), len(nodes)), strict=True):
            shares.append(Share.of(node, part, [pids[rank] for rank in part]))
    if not reached:
        raise StartError(
            f"no aggregator came up on any host of the job: {'; '.join(overlay.failed.values())}"
        )
    session.table = ProcTable(
        processes=tuple(sorted(reached, key=lambda each: each.rank)), source=table.source
    )
    return tuple(shares)


def _nodes_of(host: str, overlay: Overlay, hosts: int) -> list[int]:
    """Return the aggregators on a host, by any of the names that launchers have for it."""
    address = addresses.resolve(host)
    found = [
        node
        for node, hello in overlay.nodes.items()
        if host in (hello.host, *hello.names) or (address is not None and address in hello.names)
    ]
    by_name = [node for node in found if overlay.nodes[node].host == host]
    if hosts == 1 and not overlay.failed:
        return sorted(overlay.nodes)
    return sorted(by_name or found)


async def _find_everywhere(starting: Starting, selector: str) -> ProcTable:
    """Make the aggregators search for the ranks of a job on their hosts.

    :raises DiscoveryError: if there are none, or ranks of several jobs.
    """
    overlay = starting.overlay
    starting.session.opening.stage = "the ranks are looked for"
    found = await overlay.find(Find(selector=selector))
    jobs: dict[str, list[tuple[Hello, FoundRanks]]] = {}
    seen: set[tuple[str, ...]] = set()
    for node in sorted(found):
        hello = overlay.nodes[node]
        # Several aggregators of one host have found the same ranks.
        if (hello.host, *hello.names) in seen:
            continue
        seen.add((hello.host, *hello.names))
        for ranks in found[node].jobs:
            jobs.setdefault(ranks.job, []).append((hello, ranks))
    if not jobs:
        raise DiscoveryError(f"no process of {selector} has a rank's environment on its hosts")
    if len(jobs) > 1:
        jobs_found = "; ".join(
            f"{job or 'unknown'}: {sum(len(part.ranks) for _, part in parts)} ranks of "
            f"{parts[0][1].executable}"
            for job, parts in jobs.items()
        )
        raise DiscoveryError(
            f"there are ranks of several jobs, attach to one of them: {jobs_found}"
        )
    parts = next(iter(jobs.values()))
    processes = [
        RankProcess(rank=rank, host=hello.host, pid=pid, executable=part.executable)
        for hello, part in parts
        for rank, pid in zip(part.ranks, part.pids, strict=True)
    ]
    return ProcTable(
        processes=tuple(sorted(processes, key=lambda each: each.rank)),
        source=f"environment of the ranks, {selector}",
    )
