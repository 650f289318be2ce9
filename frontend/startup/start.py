"""How a session starts: find or launch the job, raise the overlay, take hold of the ranks."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import msgspec

from pgdb.errors import (
    DiscoveryError,
    PermissionToTraceError,
    RankSetError,
    StartError,
    UsageError,
)
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import Listener
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.discovery.found_job import FoundJob
from pgdb.frontend.startup.held import HeldJob
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.logged_start import OnStep, logged
from pgdb.frontend.startup.overlay import Overlay, Place
from pgdb.frontend.startup.remote import RemoteSite
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.shipping import ship_by_ssh
from pgdb.frontend.startup.site import Located, Site
from pgdb.frontend.system.shielding import to_its_end
from pgdb.frontend.transport.overlay_transport import Calls, OverlayTransport
from pgdb.jobs.gdb_program import check_gdb
from pgdb.jobs.launchers import (
    Launcher,
    LaunchLine,
    check_program,
    find_launcher,
    parse_launch_line,
)
from pgdb.overlay import addresses
from pgdb.overlay.messages import Acquire, Deploy, Find, FoundRanks, Hello, Setup, Share
from pgdb.overlay.topology import share_out
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Failure, Stop

T = TypeVar("T")

ORPHANS_S = 10.0
"""So long a start that has lost all ranks waits for those that have only lost their way here."""

_MOST_FAILURES = 4
"""So many different reasons are told when no rank could be taken hold of."""


async def attach(
    target: int | str,
    options: SessionOptions | None = None,
    *,
    pids: Sequence[str] = (),
    on_step: OnStep = lambda step: None,
    listener: Listener | None = None,
) -> Session:
    """Attach to a running job, which goes on if anything fails.

    *target* is the process id of its launcher, of a rank or of a wrapper around them, or a job
    ``JOB[.STEP]`` of Slurm's; or else *pids* are its ranks, as ``PID`` or ``HOST:PID``.
    *on_step* is told how the start gets on, *listener* what the session tells from its first
    moment on.

    :raises StartError: if its ranks are not found, or none of them can be attached to.
    """
    options = options or SessionOptions()

    async def begin(on_step: OnStep, listener: Listener | None) -> Session:
        return await _attach(target, options, pids, on_step, listener)

    return await logged(begin, "attach", options, on_step=on_step, listener=listener)


async def _attach(
    target: int | str,
    options: SessionOptions,
    pids: Sequence[str],
    on_step: OnStep,
    listener: Listener | None,
) -> Session:
    # The job is looked for while GDB tells its version.
    checking = asyncio.create_task(_check_gdb(options))
    directory = SessionDirectory()
    try:
        site = await open_site(options, directory)
        try:
            located = await (site.find_pids(pids) if pids else site.find(str(target)))
            for note in located.notes:
                on_step(f"note: {note}")
            options = _with_fewer_aggregators(located, options, on_step)
            place = await _place(site, located, options)
        except BaseException:
            await site.close()
            raise
    except BaseException:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
        directory.remove()
        raise
    job = located.job
    for step in job.steps:
        on_step(f"{step.name}: {step.outcome}") if options.verbose else None
    on_step(_found(located, place))
    if job.ended:
        on_step(f"note: ranks [{job.ended}] have ended already")
    if located.lacks_ranks and not _is_partial(located):
        on_step(
            f"note: {len(job.table.processes)} of {job.job_size} ranks are here; the others have "
            "ended, or are on other hosts: for these give the launcher, on its host"
        )
    starting = _prepare("attach", options, directory, site, on_step, listener)
    session = starting.session
    session.description = " ".join(job.command) or job.table.source
    session.mpi_version = located.launcher.version if located.launcher is not None else ""

    async def begin() -> tuple[Share, ...]:
        # What starts the aggregators takes its time, too.
        coming = asyncio.create_task(starting.overlay.start(site, place))
        try:
            session.gdb_version = await checking
            if isinstance(site, RemoteSite):
                session.gdb_version = await site.gdb_version(options.gdb)
            await coming
        except BaseException:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
            raise
        return await _attach_shares(starting, located)

    try:
        return await starting.run(begin())
    finally:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)


async def launch(
    argv: Sequence[str],
    options: SessionOptions | None = None,
    *,
    stdin: int | None = None,
    on_step: OnStep = lambda step: None,
    listener: Listener | None = None,
) -> Session:
    """Launch a job under the debugger and stop all its ranks in ``main``.

    *argv* is the launcher's whole line, *stdin* a descriptor for the job's input (None: a pipe
    that :meth:`JobLauncher.write` feeds).

    :raises UsageError: if the line cannot be read.
    :raises StartError: if the job or the session cannot be started; the job is ended.
    """
    options = options or SessionOptions()

    async def begin(on_step: OnStep, listener: Listener | None) -> Session:
        return await _launch(argv, options, stdin, on_step, listener)

    return await logged(begin, "launch", options, on_step=on_step, listener=listener, argv=argv)


async def _launch(
    argv: Sequence[str],
    options: SessionOptions,
    stdin: int | None,
    on_step: OnStep,
    listener: Listener | None,
) -> Session:
    if options.host:
        raise UsageError(f"--host is for attach; to launch there: ssh {options.host} pgdb launch …")
    if options.connect:
        raise UsageError(
            "--connect is for attach: held ranks report to the front end; --listen ADDRESS names "
            "one that they can reach"
        )
    gdb_version = await _check_gdb(options)
    line = await asyncio.to_thread(parse_launch_line, argv)
    for doubt in line.doubts:
        on_step(f"note: {doubt}")
    for program in line.programs:
        check_program(program, os.environ.get("PATH", os.defpath))
    directory = SessionDirectory()
    starting = _prepare("launch", options, directory, LocalSite(directory.path), on_step, listener)
    session = starting.session
    session.description, session.gdb_version = " ".join(argv), gdb_version
    session.mpi_version = line.launcher.version
    return await starting.run(_launch_shares(starting, line, stdin))


async def _check_gdb(options: SessionOptions) -> str:
    """Return the version of this host's GDB, empty with ``--host``: that of the host counts.

    :raises StartError: if there is no GDB that can be used.
    """
    return "" if options.host else await asyncio.to_thread(check_gdb, options.gdb)


async def open_site(options: SessionOptions, directory: SessionDirectory) -> Site:
    """Return where jobs are looked for: this host, or that of ``--host``.

    :raises StartError: if that host cannot be reached or does not have this PGDB.
    """
    if not options.host:
        return LocalSite(directory.path)
    path = None
    if options.ship:
        python = options.remote_python or "python3"
        path = await ship_by_ssh(options.host, options.ssh, python)
        return await RemoteSite.connect(options.host, options.ssh, python=python, python_path=path)
    return await RemoteSite.connect(options.host, options.ssh, python=options.remote_python)


def new_session(
    mode: Literal["attach", "launch"], options: SessionOptions, directory: SessionDirectory
) -> tuple[Session, Overlay]:
    """Return a session over an overlay that is yet to be started."""
    made: list[Overlay] = []

    def make(calls: Calls) -> Overlay:
        made.append(
            Overlay(
                options,
                directory,
                on_events=calls.events,
                on_late=calls.late,
                on_lost=calls.lost,
                on_notice=calls.notice,
                on_progress=calls.progress,
            )
        )
        return made[0]

    return Session(mode, options, OverlayTransport(make), directory), made[0]


def _prepare(
    mode: Literal["attach", "launch"],
    options: SessionOptions,
    directory: SessionDirectory,
    site: Site,
    on_step: OnStep,
    listener: Listener | None,
) -> _Starting:
    session, overlay = new_session(mode, options, directory)
    return _Starting(session, overlay, directory, site, on_step, listener)


class _Starting(msgspec.Struct, frozen=True):
    """A session that is about to start."""

    session: Session
    overlay: Overlay
    directory: SessionDirectory
    site: Site
    on_step: OnStep
    listener: Listener | None

    async def run(self, begin: Coroutine[Any, Any, tuple[Share, ...]]) -> Session:
        """Carry *begin* out, which says who debugs what, and take hold of the ranks."""
        session, options = self.session, self.session.options
        if self.listener is not None:
            session.subscribe(self.listener)
        session.ending.add(self.site.close())
        try:
            async with asyncio.timeout(options.start_timeout_s):
                shares = await begin
                hosts = len(session.table.hosts)
                self.on_step(
                    f"{len(session.table.processes)} ranks on {count(hosts, 'host')}, "
                    f"{count(len(self.overlay.nodes), 'aggregator')}, fan-out {options.fan_out}"
                )
                await _acquire(self, shares)
        except TimeoutError:
            await to_its_end(session.close())
            raise StartError(_what_is_missing(self)) from None
        except BaseException:
            # Whatever it was, a launched job must not stay behind half held, and no attached
            # one may stay attached.
            await to_its_end(session.close())
            raise
        return session


def _what_is_missing(starting: _Starting) -> str:
    """Return in words what a start was waiting for at its deadline."""
    session = starting.session
    got, wanted = starting.overlay.progress()
    parts = [session.opening.stage, f"aggregators {got}/{wanted}"]
    if session.set:
        parts.append(f"no answer from ranks [{session.set - session.state.stopped}]")
    if session.options.program and session.mode == "launch":
        parts.append(f"is it --program {session.options.program} that they execute?")
    words = starting.overlay.last_words()
    told = ", ".join(part for part in parts if part)
    return (
        f"the session did not start within {session.options.start_timeout_s:g} s ({told}); "
        f"--start-timeout gives it longer. {words}"
    ).rstrip()


async def _acquire(starting: _Starting, shares: tuple[Share, ...]) -> None:
    """Have the aggregators attach to their ranks."""
    session, options = starting.session, starting.session.options
    ranks = RankSet.union(share.ranks for share in shares)
    session.opening.begin(ranks)
    session.opening.stage = "GDBs start"
    starting.overlay.root.apply_setup(
        Setup(
            shares=shares,
            is_held=session.mode == "launch",
            gdb=options.gdb,
            gdb_version=session.gdb_version,
            gdb_commands=options.gdb_commands,
            program=options.program,
            nursery=options.nursery,
            guard=options.guard,
            deploy=_deploy(options),
        )
    )
    answer = await session.ask(session.mode, Acquire(), ranks, timeout_s=options.start_timeout_s)
    if not answer.classes and answer.missing.lost:
        await session.opening.wait_orphans(ORPHANS_S)
    if not session.opening.orphans_are_back:
        _check_start(answer, session.mode)
    session.opening.complete(answer)


def _deploy(options: SessionOptions) -> Deploy | None:
    if not options.sbd:
        return None
    return Deploy(
        cache=options.sbd_cache,
        max_bytes=options.sbd_cache_bytes,
        max_age_s=options.sbd_cache_age_s,
        wait_s=options.sbd_wait_s,
    )


def _check_start(answer: Answer, mode: str) -> None:
    if any(isinstance(each.record, Stop) for each in answer.classes):
        return
    failed = [each for each in answer.classes if isinstance(each.record, Failure)]
    if failed:
        messages = [each.filled.message for each in failed]  # type: ignore[union-attr]
        told = [f"[{each.ranks}] {message}" for each, message in zip(failed, messages, strict=True)]
        if len(told) > _MOST_FAILURES:
            others = RankSet.union(each.ranks for each in failed[_MOST_FAILURES:])
            told[_MOST_FAILURES:] = [f"[{others}] for other reasons"]
        kind = PermissionToTraceError if "cannot attach" in messages[0] else StartError
        raise kind("; ".join(told))
    if answer.classes:
        raise StartError(
            f"the program ended on [{answer.classes[0].ranks}] before it could be stopped"
            + (" in main" if mode == "launch" else "")
        )
    raise StartError(f"no rank could be taken hold of; no answer from [{answer.missing.ranks}]")


# -- attaching ---------------------------------------------------------------------------------


async def _place(site: Site, located: Located, options: SessionOptions) -> Place:
    job = located.job
    if located.refusals:
        raise PermissionToTraceError(f"none of the ranks can be attached to: {located.refusals[0]}")
    wanted = None if _is_partial(located) else _wanted(job.table.ranks, options.ranks)
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


def _with_fewer_aggregators(
    located: Located, options: SessionOptions, on_step: OnStep
) -> SessionOptions:
    """Return the options with no more aggregators on a host than ranks, where these are known."""
    if _is_partial(located):
        return options
    table = located.job.table
    table = table.only(_wanted(table.ranks, options.ranks))
    most = max(Counter(each.host for each in table.processes).values(), default=1)
    if options.aggregators <= most:
        return options
    on_step(f"note: {count(most, 'aggregator')} on a host, not {options.aggregators}: one per rank")
    return replace(options, aggregators=most)


def _is_partial(located: Located) -> bool:
    """Return whether the aggregators have to look for ranks that nothing else has named."""
    job = located.job
    return not job.table.processes or (located.lacks_ranks and len(job.hosts) > 1)


def _wanted(has: RankSet, ranks: RankSet | None) -> RankSet:
    if ranks is not None and (unknown := ranks - has):
        raise RankSetError(f"no rank {unknown}; the job has {has}")
    return has if ranks is None else ranks


def _found(located: Located, place: Place) -> str:
    job = located.job
    hosts = count(max(1, len(place.hosts)), "host")
    if not job.table.processes:
        return f"found a job on {hosts} ({job.table.source}); its ranks are looked for there"
    ranks = count(len(job.table.processes), "rank")
    if _is_partial(located):
        return (
            f"found {ranks} of {job.job_size} ({job.table.source}); the others are looked for on "
            f"{hosts}"
        )
    return f"found {ranks} on {hosts} ({job.table.source})"


async def _attach_shares(starting: _Starting, located: Located) -> tuple[Share, ...]:
    """Share the ranks out among the aggregators of their hosts."""
    session, overlay, table = starting.session, starting.overlay, located.job.table
    options = session.options
    if _is_partial(located):
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


async def _find_everywhere(starting: _Starting, selector: str) -> ProcTable:
    """Have the aggregators look for the ranks of a job on their hosts.

    :raises DiscoveryError: if there are none, or ranks of several jobs.
    """
    overlay = starting.overlay
    starting.session.opening.stage = "the ranks are looked for"
    found = await overlay.find(Find(selector=selector))
    jobs: dict[str, list[tuple[Hello, FoundRanks]]] = {}
    seen: set[tuple[str, ...]] = set()
    for node in sorted(found):
        hello = overlay.nodes[node]
        # Several aggregators of one host have all found the same.
        if (hello.host, *hello.names) in seen:
            continue
        seen.add((hello.host, *hello.names))
        for ranks in found[node].jobs:
            jobs.setdefault(ranks.job, []).append((hello, ranks))
    if not jobs:
        raise DiscoveryError(f"no process of {selector} has a rank's environment on its hosts")
    if len(jobs) > 1:
        told = "; ".join(
            f"{job or 'unknown'}: {sum(len(part.ranks) for _, part in parts)} ranks of "
            f"{parts[0][1].executable}"
            for job, parts in jobs.items()
        )
        raise DiscoveryError(f"there are ranks of several jobs, attach to one of them: {told}")
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


# -- launching ---------------------------------------------------------------------------------


async def _launch_shares(
    starting: _Starting, line: LaunchLine, stdin: int | None
) -> tuple[Share, ...]:
    session, overlay, site = starting.session, starting.overlay, starting.site
    job = await HeldJob.launch(
        session,
        starting.directory,
        line.held,
        stdin=stdin,
        on_this_host_only=line.on_this_host_only,
    )
    reports = job.reports
    session.opening.stage = "the job's ranks start"
    if line.on_this_host_only:
        # The aggregators come up while the job's ranks do.
        place = Place(launcher=await _overlay_launcher(session, line.launcher))
        await _both(overlay.start(site, place), job.wait_known())
    else:
        try:
            await job.wait_known()
        except asyncio.CancelledError:
            session.opening.stage = reports.progress()
            raise
        starting.on_step(
            f"{count(reports.size, 'rank')} held on {count(len(reports.hosts), 'host')}"
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
        return launcher
    if os.path.basename(words[0]) == "ssh":
        return None
    return await asyncio.to_thread(find_launcher, words[0])


async def _held_shares(starting: _Starting, job: HeldJob) -> tuple[Share, ...]:
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
    shares, processes = [], []
    for node, answer in sorted(found.items()):
        for part in answer.jobs:
            shares.append(Share.of(node, part.ranks, part.pids))
            processes += [
                RankProcess(
                    rank=rank,
                    host=overlay.nodes[node].host,
                    pid=pid,
                    executable=job.reports.program,
                )
                for rank, pid in zip(part.ranks, part.pids, strict=True)
            ]
    session.table = ProcTable(
        processes=tuple(sorted(processes, key=lambda each: each.rank)), source="held ranks"
    )
    return tuple(shares)


async def _both(one: Coroutine[Any, Any, None], other: Coroutine[Any, Any, None]) -> None:
    tasks = (asyncio.ensure_future(one), asyncio.ensure_future(other))
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def count(number: int, what: str) -> str:
    """Return e.g. ``1 rank``, ``2 ranks``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
