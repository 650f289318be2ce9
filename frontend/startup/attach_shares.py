"""Ranks of a running job, shared out among aggregators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from pgdb.errors import (
    DiscoveryError,
    PermissionToTraceError,
    RankSetError,
    StartError,
)
from pgdb.frontend.analysis.wording import counted
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.discovery import worlds
from pgdb.frontend.discovery.found_job import FoundJob
from pgdb.frontend.discovery.worlds import HostPart
from pgdb.frontend.startup.logged_start import OnStep
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.startup.places import Place
from pgdb.frontend.startup.session_start import Starting
from pgdb.frontend.startup.site import Located, Site
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
    wanted = None if is_partial(located) else _wanted(options.ranks, job.table, job.ended)
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
    table = located.job.table.only(_wanted(options.ranks, located.job.table, located.job.ended))
    most = max(Counter(each.host for each in table.processes).values(), default=1)
    if options.aggregators <= most:
        return options
    on_step(
        f"note: {counted(most, 'aggregator')} on a host, not {options.aggregators}: one per rank"
    )
    return replace(options, aggregators=most)


def is_partial(located: Located) -> bool:
    """Return whether the aggregators have to search for ranks."""
    job = located.job
    return not job.table.processes or (located.lacks_ranks and len(job.hosts) > 1)


def _wanted(ranks: RankSet | None, table: ProcTable, ended: RankSet) -> RankSet:
    has = table.ranks
    if ranks is not None and (missing := ranks - has):
        if unknown := missing - ended:
            raise RankSetError(f"no rank {unknown}; the job has {has}")
        raise RankSetError(f"[{missing}] ended before the attach; the job still has [{has}]")
    return has if ranks is None else ranks


def found_text(located: Located, place: Place) -> str:
    """Return the result of the search, for the user."""
    job = located.job
    hosts = counted(max(1, len(place.hosts)), "host")
    if not job.table.processes:
        return f"found a job on {hosts} ({job.table.source}); its ranks are looked for there"
    ranks = counted(len(job.table.processes), "rank")
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
        find = _find_worlds if located.job.world else _find_everywhere
        found = await find(starting, located.job)
        others = table.only(table.ranks - found.ranks).processes
        table = ProcTable(
            processes=tuple(sorted((*found.processes, *others), key=lambda each: each.rank)),
            source=found.source,
        )
    wanted = _wanted(options.ranks, table, located.job.ended)
    table = table.only(wanted)
    shares: list[Share] = []
    reached: list[RankProcess] = []
    for host in table.hosts:
        nodes = nodes_of(host, overlay)
        if len(table.hosts) == 1 and not overlay.failed:
            nodes = sorted(overlay.nodes)
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


def nodes_of(host: str, overlay: Overlay) -> list[int]:
    """Return the aggregators on a host, by any of the names that launchers have for it."""
    return nodes_among(host, overlay.nodes)


def nodes_among(host: str, hellos: Mapping[int, Hello]) -> list[int]:
    """Return those of some aggregators that are on a host."""
    address = addresses.resolve(host)
    found = [
        node
        for node, hello in hellos.items()
        if host in (hello.host, *hello.names) or (address is not None and address in hello.names)
    ]
    by_name = [node for node in found if hellos[node].host == host]
    return sorted(by_name or found)


async def _find_worlds(starting: Starting, job: FoundJob) -> ProcTable:
    """Make the aggregators search for the worlds of a launcher; return the ranks of the wanted.

    :raises DiscoveryError: if there is no such world.
    """
    starting.session.opening.stage = "the ranks are looked for"
    parts = await found_parts(starting.overlay, job.selector)
    found = worlds.chosen(worlds.assemble(parts), job.world, f"the launcher {job.launcher_pid}")
    starting.session.all_worlds.begin(found)
    starting.session.all_worlds.first_number = found[0].number
    return ProcTable(processes=worlds.processes_of(found), source=job.table.source)


async def found_parts(overlay: Overlay, selector: str) -> list[list[HostPart]]:
    """Return the worlds that *selector* means, as each host has found them."""
    hosts: list[list[HostPart]] = []
    seen: set[tuple[str, ...]] = set()
    for node, found in sorted((await overlay.find(Find(selector=selector))).items()):
        hello = overlay.nodes.get(node)
        # Several aggregators of one host have found the same ranks.
        if hello is None or (hello.host, *hello.names) in seen:
            continue
        seen.add((hello.host, *hello.names))
        hosts.append([_part(hello, each) for each in found.jobs])
    return hosts


def _part(hello: Hello, found: FoundRanks) -> HostPart:
    return HostPart(
        key=found.job,
        size=found.size,
        processes=tuple(
            RankProcess(rank=rank, host=hello.host, pid=pid, executable=found.executable)
            for rank, pid in zip(found.ranks, found.pids, strict=True)
        ),
    )


async def _find_everywhere(starting: Starting, job: FoundJob) -> ProcTable:
    """Make the aggregators search for the ranks of a job on their hosts.

    :raises DiscoveryError: if there are none, or ranks of several jobs.
    """
    overlay, selector = starting.overlay, job.selector
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
            f"{key or 'unknown'}: {sum(len(part.ranks) for _, part in parts)} ranks of "
            f"{parts[0][1].executable}"
            for key, parts in jobs.items()
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
