"""The start of a session over core files."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from dataclasses import replace

from pgdb.cores.core_set import CoreSet, assemble
from pgdb.cores.finding import Folder, FoundCores, find_cores, take_from_systemd
from pgdb.errors import RankSetError, StartError, UsageError
from pgdb.frontend.api.notifications import Listener
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.logged_start import OnStep, logged
from pgdb.frontend.startup.places import Place
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.starting import count, prepare
from pgdb.jobs.gdb_program import check_gdb
from pgdb.overlay.core_setup import CoreSetup
from pgdb.overlay.messages import Share
from pgdb.overlay.topology import share_out
from pgdb.proctable import ProcTable, RankProcess

_MOST_REFUSED = 4
S_PER_CORE = 0.5
"""Time that GDB may need to read a core file, on a host with other work."""


async def open_cores(
    targets: Sequence[str],
    options: SessionOptions | None = None,
    *,
    executable: str = "",
    from_systemd: bool = False,
    on_step: OnStep = lambda step: None,
    listener: Listener | None = None,
) -> Session:
    """Open the core files of one job.

    *targets* are files, directories and patterns; with *from_systemd* they are matches of
    coredumpctl, none for all. *executable* is the program of the cores, where the one that they
    name is elsewhere. *on_step* gets each step of the start as text, *listener* each notification.

    :raises UsageError: if a target names no file.
    :raises StartError: if there is no core file that can be used, or GDB cannot read any.
    """
    options = options or SessionOptions()
    for name in ("host", "connect", "ship", "sbd"):
        if getattr(options, name):
            raise UsageError(f"--{name} is for running jobs; core files are read on this host")

    async def begin(on_step: OnStep, listener: Listener | None) -> Session:
        return await _open(targets, options, executable, from_systemd, on_step, listener)

    return await logged(begin, "core", options, on_step=on_step, listener=listener)


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
        if options.ranks is not None and (unknown := options.ranks - chosen.ranks):
            raise RankSetError(
                f"no core file of ranks {unknown}; there are those of {chosen.ranks}"
            )
        ranks = chosen.ranks if options.ranks is None else options.ranks
        aggregators = min(options.aggregators, len(ranks))
        options = _with_times(replace(options, aggregators=aggregators), len(ranks))
        on_step(f"found core files of {count(len(ranks), 'rank')} ({chosen.source})")
        gdb_version = await checking
        directory = SessionDirectory()
    except BaseException:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
        folder.remove()
        raise
    paths = {rank: chosen.cores[rank].path for rank in ranks}
    cores = CoreSetup(paths=paths, executable=executable, most_gdbs=options.core_gdbs)
    site = LocalSite(directory.path)
    starting = prepare("core", options, directory, site, on_step, listener, cores=cores)
    session = starting.session
    host = socket.gethostname()
    processes = [
        RankProcess(
            rank=rank,
            host=host,
            pid=chosen.cores[rank].pid,
            executable=executable or chosen.cores[rank].program,
        )
        for rank in ranks
    ]
    session.table = ProcTable(processes=tuple(processes), source="core files")
    session.core_files = paths
    session.description = _description(chosen)
    session.gdb_version = gdb_version
    session.ending.add(asyncio.to_thread(folder.remove))

    async def begin() -> tuple[Share, ...]:
        await starting.overlay.start(site, Place(launcher=None))
        nodes = sorted(starting.overlay.nodes)
        parts = zip(nodes, share_out(ranks, len(nodes)), strict=True)
        pids = {each.rank: each.pid for each in processes}
        return tuple(Share.of(node, part, [pids[rank] for rank in part]) for node, part in parts)

    return await starting.run(begin())


def _with_times(options: SessionOptions, count: int) -> SessionOptions:
    """Return the options with the times that the start and a command may take with *count* cores.

    Where the cores are more than the GDBs at a time, each command reads cores again. The user's own
    limit for commands stays.
    """
    needed_s = S_PER_CORE * count / max(1, options.aggregators)
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


def _chosen(found: FoundCores, executable: str) -> CoreSet:
    """Return the core files of one job.

    :raises StartError: if there are none.
    """
    if not found.cores:
        refused = [f"{path} {why}" for path, why in found.refused[:_MOST_REFUSED]]
        if len(found.refused) > _MOST_REFUSED:
            refused.append(f"and {len(found.refused) - _MOST_REFUSED} more")
        raise StartError(f"no core file can be used: {'; '.join(refused)}")
    chosen = assemble(found.cores, executable=executable)
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
