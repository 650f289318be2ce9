"""The start of a session over core files."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from pgdb.cores.core_set import CoreSet, assemble
from pgdb.cores.finding import Folder, FoundCores, find_cores, take_from_systemd
from pgdb.cores.search import CoreSearch, LeftBy
from pgdb.errors import RankSetError, StartError, UsageError
from pgdb.frontend.analysis.wording import counted
from pgdb.frontend.api.argument_types import checks_call
from pgdb.frontend.api.notifications import Listener
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.core_hosts import are_here, find_on_hosts, whole_names
from pgdb.frontend.startup.job_launchers import launcher_for_hosts
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.logged_start import OnStep, logged
from pgdb.frontend.startup.places import Place
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import Starting, prepare
from pgdb.jobs.gdb_program import check_gdb
from pgdb.jobs.launchers import Family, Launcher
from pgdb.overlay.core_setup import CoreSetup
from pgdb.overlay.messages import Share
from pgdb.overlay.topology import share_out
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet

_MOST_REFUSED = 4
S_PER_CORE = 0.5
"""Time that GDB may need to read a core file, on a host with other work."""


@checks_call
async def open_cores(
    targets: Sequence[str],
    options: SessionOptions | None = None,
    *,
    executable: str = "",
    from_systemd: bool = False,
    hosts: Sequence[str] = (),
    on_step: OnStep = lambda step: None,
    listener: Listener | None = None,
) -> Session:
    """Open the core files of one job.

    *targets* are files, directories and patterns; with *from_systemd* they are matches of
    coredumpctl, none for all. *executable* is the program of the cores, where the one that they
    name is elsewhere. *hosts* are those that hold the files; empty for this one. *on_step* gets
    each step of the start as text, *listener* each notification.

    :raises UsageError: if a target names no file.
    :raises StartError: if there is no core file that can be used, or GDB cannot read any.
    """
    options = options or SessionOptions()
    hosts = () if are_here(hosts) else tuple(dict.fromkeys(hosts))
    _check_options(options, hosts)

    async def begin(on_step: OnStep, listener: Listener | None) -> Session:
        if hosts:
            place = place_of(hosts, options.overlay_launcher)
            search = CoreSearch(
                targets=tuple(targets) if from_systemd else whole_names(targets),
                from_systemd=from_systemd,
                executable=whole_names([executable])[0] if executable else "",
            )
            return await _open_on_hosts(place, search, options, on_step, listener)
        return await _open(targets, options, executable, from_systemd, on_step, listener)

    return await logged(begin, "core", options, on_step=on_step, listener=listener)


def _check_options(options: SessionOptions, hosts: Sequence[str]) -> None:
    """Check that the options are for core files.

    :raises UsageError: if one is for jobs, or for core files of other hosts.
    """
    for name in ("host", "sbd"):
        if getattr(options, name):
            raise UsageError(f"--{name} is for running jobs; --hosts names hosts with core files")
    for name in ("connect", "ship"):
        if getattr(options, name) and not hosts:
            raise UsageError(f"--{name} is for other hosts; core files are read on this host")


async def _open(
    targets: Sequence[str],
    options: SessionOptions,
    executable: str,
    from_systemd: bool,
    on_step: OnStep,
    listener: Listener | None,
) -> Session:
    checking = asyncio.create_task(asyncio.to_thread(check_gdb, options.gdb))
    folder = Folder()
    try:
        executable = _checked(executable)
        find = take_from_systemd if from_systemd else find_cores
        found = await asyncio.to_thread(find, targets, folder)
        for note in found.notes:
            on_step(f"note: {note}")
        chosen = await asyncio.to_thread(_chosen, found, executable)
        for note in chosen.notes:
            on_step(f"note: {note}")
        ranks = _wanted(chosen, options.ranks)
        aggregators = min(options.aggregators, len(ranks))
        options = replace(options, aggregators=aggregators)
        options = _with_times(options, len(ranks), len(ranks) / aggregators)
        on_step(_found_text(chosen, ranks))
        gdb_version = await checking
        directory = SessionDirectory()
    except BaseException:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
        folder.remove()
        raise
    site = LocalSite(directory.path)
    starting = prepare("core", options, directory, site, on_step, listener)
    session = starting.session
    session.gdb_version = gdb_version
    _take(starting, chosen, ranks, executable, sharers=aggregators)
    session.ending.add(asyncio.to_thread(folder.remove))

    async def begin() -> tuple[Share, ...]:
        await starting.overlay.start(site, Place(launcher=None))
        return _shares(chosen, ranks, sorted(starting.overlay.nodes))

    return await starting.run(begin())


async def open_left_cores(
    hosts: Sequence[str],
    launcher: Launcher | None,
    line: Sequence[str],
    left_by: LeftBy,
    options: SessionOptions,
) -> Session:
    """Open the core files that processes of a job have left on several hosts.

    *launcher* and *line* are those of the job: they have reached the hosts.

    :raises StartError: if there is no core file that can be used, or GDB cannot read any.
    """
    place = place_of(hosts, options.overlay_launcher)
    if launcher is not None and place.launcher is None and not options.overlay_launcher:
        place = msgspec.structs.replace(place, launcher=launcher, job_command=tuple(line))

    async def begin(on_step: OnStep, listener: Listener | None) -> Session:
        return await _open_on_hosts(place, CoreSearch(left_by=left_by), options, on_step, listener)

    return await logged(begin, "core", options, on_step=lambda step: None, listener=None)


def place_of(hosts: Sequence[str], overlay_launcher: Sequence[str]) -> Place:
    """Return the place for the aggregators of hosts that hold core files.

    :raises StartError: if there is nothing to start them with.
    """
    launcher = launcher_for_hosts(overlay_launcher, os.environ)
    is_slurm = launcher is not None and launcher.family is Family.SLURM
    return Place(
        launcher=launcher,
        hosts=tuple(hosts),
        slurm_job=os.environ.get("SLURM_JOB_ID", "") if is_slurm else "",
    )


async def _open_on_hosts(
    place: Place,
    search: CoreSearch,
    options: SessionOptions,
    on_step: OnStep,
    listener: Listener | None,
) -> Session:
    """Start aggregators on the hosts, which find core files there."""
    directory = SessionDirectory()
    site = LocalSite(directory.path)
    starting = prepare("core", options, directory, site, on_step, listener)
    session, executable = starting.session, search.executable

    async def begin() -> tuple[Share, ...]:
        # The GDBs of the hosts count; this host may have none.
        with contextlib.suppress(StartError):
            session.gdb_version = await asyncio.to_thread(check_gdb, options.gdb)
        async with asyncio.timeout(options.start_timeout_s):
            await starting.overlay.start(site, place)
        session.opening.stage = "core files are looked for"
        found = await find_on_hosts(starting, search)
        for note in found.found.notes:
            on_step(f"note: {note}")
        chosen = await asyncio.to_thread(_chosen, found.found, executable, found.build_id)
        for note in chosen.notes:
            on_step(f"note: {note}")
        ranks = _wanted(chosen, options.ranks)
        on_step(_found_text(chosen, ranks))
        shares: list[Share] = []
        for host, nodes in found.nodes.items():
            own = RankSet(rank for rank in ranks if chosen.cores[rank].host == host)
            if own:
                shares += _shares(chosen, own, nodes[: len(own)])
        _take(starting, chosen, ranks, executable, sharers=options.aggregators)
        most = max(len(each.ranks) for each in shares)
        session.options = _with_times(options, len(ranks), most)
        return tuple(shares)

    return await starting.run(begin(), has_own_limits=True)


def _wanted(chosen: CoreSet, wanted: RankSet | None) -> RankSet:
    """Return the ranks to open.

    :raises RankSetError: if there is no core file of one that the user wants.
    """
    if wanted is not None and (unknown := wanted - chosen.ranks):
        raise RankSetError(f"no core file of ranks {unknown}; there are those of {chosen.ranks}")
    return chosen.ranks if wanted is None else wanted


def _found_text(chosen: CoreSet, ranks: RankSet) -> str:
    return f"found core files of {counted(len(ranks), 'rank')} ({chosen.source})"


def _take(
    starting: Starting, chosen: CoreSet, ranks: RankSet, executable: str, *, sharers: int
) -> None:
    """Make core files the ranks of the session that starts."""
    session = starting.session
    paths = {rank: chosen.cores[rank].path for rank in ranks}
    starting.cores = CoreSetup(
        paths=paths,
        executable=executable,
        most_gdbs=session.options.core_gdbs,
        sharers=sharers,
    )
    here = socket.gethostname()
    processes = [
        RankProcess(
            rank=rank,
            host=chosen.cores[rank].host or here,
            pid=chosen.cores[rank].pid,
            executable=executable or chosen.cores[rank].program,
        )
        for rank in ranks
    ]
    session.table = ProcTable(processes=tuple(processes), source="core files")
    session.core_files = paths
    session.description = _description(chosen)


def _shares(chosen: CoreSet, ranks: RankSet, nodes: Sequence[int]) -> tuple[Share, ...]:
    """Divide ranks among aggregators."""
    parts = zip(nodes, share_out(ranks, len(nodes)), strict=True)
    return tuple(
        Share.of(node, part, [chosen.cores[rank].pid for rank in part]) for node, part in parts
    )


def _with_times(options: SessionOptions, count: int, most: float) -> SessionOptions:
    """Return the options with the times that the start and a command may take with *count* cores.

    Where the cores are more than the GDBs at a time, each command reads cores again. The user's own
    limit for commands stays.

    :param most: most cores of an aggregator.
    """
    needed_s = S_PER_CORE * most
    start_timeout_s = max(options.start_timeout_s, S_PER_CORE * count)
    timeout_s = options.timeout_s
    if timeout_s == SessionOptions().timeout_s:
        timeout_s = max(timeout_s, needed_s)
    return replace(options, start_timeout_s=start_timeout_s, timeout_s=timeout_s)


def _checked(executable: str) -> str:
    """Return the whole name of the user's program.

    :raises UsageError: if there is no such file.
    """
    if not executable:
        return ""
    name = os.path.abspath(os.path.expanduser(executable))
    if not os.path.isfile(name):
        raise UsageError(f"--exe {executable}: there is no such file")
    return name


def _chosen(found: FoundCores, executable: str, build_id: str | None = None) -> CoreSet:
    """Return the core files of one job.

    :raises StartError: if there are none.
    """
    if not found.cores:
        refused = [f"{path} {why}" for path, why in found.refused[:_MOST_REFUSED]]
        if len(found.refused) > _MOST_REFUSED:
            refused.append(f"and {len(found.refused) - _MOST_REFUSED} more")
        raise StartError(f"no core file can be used: {'; '.join(refused)}")
    chosen = assemble(found.cores, executable=executable, build_id=build_id)
    if not chosen.cores:
        programs = sorted({each.program or each.command for each in found.cores})
        raise StartError(
            f"--exe {executable}: no core file is of this program; they are of "
            f"{', '.join(programs[:_MOST_REFUSED])}"
        )
    return chosen


def _description(chosen: CoreSet) -> str:
    lines = dict.fromkeys(
        each.arguments or each.program or each.command for each in chosen.cores.values()
    )
    return f"core files of {next(iter(lines))}"
