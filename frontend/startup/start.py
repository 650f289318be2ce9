"""Attach and launch: find or launch the job, start the overlay, attach to the ranks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence

from pgdb.errors import (
    UsageError,
)
from pgdb.frontend.api.argument_types import checks_call
from pgdb.frontend.api.notifications import Listener
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.attach_shares import (
    attach_shares,
    found_text,
    is_partial,
    place_for,
    with_fewer_aggregators,
)
from pgdb.frontend.startup.launch_shares import launch_shares
from pgdb.frontend.startup.local_site import LocalSite
from pgdb.frontend.startup.logged_start import OnStep, logged
from pgdb.frontend.startup.remote import RemoteSite
from pgdb.frontend.startup.scripted import begin_script
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import prepare
from pgdb.frontend.startup.shipping import ship_by_ssh
from pgdb.frontend.startup.site import Located, Site
from pgdb.frontend.startup.spawned import SpawnedWorlds, names_of
from pgdb.jobs.gdb_program import check_gdb
from pgdb.jobs.launch_lines import check_program, given_words
from pgdb.jobs.launcher_kinds import read_launch_line, rights_lost
from pgdb.jobs.thread_states import LOST_FIRST_THREAD, NO_DEBUGGER
from pgdb.overlay.messages import Share

_SPAWNED_S = 20.0
"""Longest time that a start waits for the search for ranks of MPI_Comm_spawn."""


@checks_call
async def attach(
    target: int | str,
    options: SessionOptions | None = None,
    *,
    pids: Sequence[str] = (),
    on_step: OnStep = lambda step: None,
    listener: Listener | None = None,
) -> Session:
    """Attach to a running job, which continues if anything fails.

    *target* is the process id of its launcher, of a rank or of a wrapper around them, or a job
    ``JOB[.STEP]`` of Slurm; *pids* names the ranks instead, as ``PID`` or ``HOST:PID``. *on_step*
    gets each step of the start as text, *listener* each notification from the first one on.

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
    # GDB reports its version while the search for the job runs.
    checking = asyncio.create_task(_check_gdb(options))
    directory = SessionDirectory()
    try:
        site = await open_site(options, directory)
        try:
            wanted = f"{target}@{options.world}" if options.world else str(target)
            located = await (site.find_pids(pids) if pids else site.find(wanted))
            for note in (*located.notes, *located.job.notes):
                on_step(f"note: {note}")
            options = with_fewer_aggregators(located, options, on_step)
            place = await place_for(site, located, options)
        except BaseException:
            await site.close()
            raise
    except BaseException:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
        directory.remove()
        raise
    job = located.job
    if options.verbose:
        for step in job.steps:
            on_step(f"{step.name}: {step.outcome}")
    on_step(found_text(located, place))
    for note in _notes_on_absent(located):
        on_step(f"note: {note}")
    starting = prepare("attach", options, directory, site, on_step, listener)
    session = starting.session
    session.description = " ".join(job.command) or job.table.source
    present = [each for each in job.worlds if each.ranks]
    session.all_worlds.begin(present)
    session.all_worlds.first_number = present[0].number if present else 0
    session.all_worlds.ended, session.all_worlds.headless = job.ended, job.headless
    session.all_worlds.headless_text = LOST_FIRST_THREAD
    spawned = None
    if job.launcher_pid:
        spawned = SpawnedWorlds(session, starting.overlay)
        spawned.launcher_pid = job.launcher_pid
    session.hold_time.group_s = job.hold_limit_s
    session.mpi_version = located.launcher.version if located.launcher is not None else ""

    async def begin() -> tuple[Share, ...]:
        # The launcher of the aggregators takes its time, too.
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
        return await attach_shares(starting, located)

    try:
        await starting.run(begin())
    finally:
        checking.cancel()
        await asyncio.gather(checking, return_exceptions=True)
    if session.worlds:
        session.note(names_of(session.all_worlds.known))
    begin_script(session, str(target), tuple(pids))
    if spawned is not None:
        # A host that hangs is no reason to keep the user from the prompt.
        await spawned.begin(_SPAWNED_S)
    return session


def _notes_on_absent(located: Located) -> Iterator[str]:
    """Yield a note on the ranks that the session cannot have, for each reason."""
    job = located.job
    if gone := job.ended - job.headless:
        yield f"ranks [{gone}] have ended already"
    for rank in job.headless:
        yield f"rank {rank} has {LOST_FIRST_THREAD}; {NO_DEBUGGER}"
    if located.lacks_ranks and not is_partial(located):
        yield (
            f"{len(job.table.processes)} of {job.job_size} ranks are here; the others have "
            "ended, or are on other hosts: for these give the launcher, on its host"
        )


@checks_call
async def launch(
    argv: Sequence[str | os.PathLike[str]],
    options: SessionOptions | None = None,
    *,
    stdin: int | None = None,
    on_step: OnStep = lambda step: None,
    listener: Listener | None = None,
) -> Session:
    """Launch a job under the debugger and stop all its ranks in ``main``.

    *argv* is the whole line of the launcher, *stdin* a descriptor for the job's input (None: a pipe
    that :meth:`JobLauncher.write` feeds).

    :raises UsageError: if the line cannot be read.
    :raises StartError: if the job or the session cannot be started; the job is ended.
    """
    options = options or SessionOptions()
    words = given_words(argv)

    async def begin(on_step: OnStep, listener: Listener | None) -> Session:
        return await launch_job(words, options, stdin, on_step, listener)

    return await logged(begin, "launch", options, on_step=on_step, listener=listener, argv=words)


async def launch_job(
    argv: Sequence[str],
    options: SessionOptions,
    stdin: int | None,
    on_step: OnStep,
    listener: Listener | None,
    *,
    last_request: int = 0,
) -> Session:
    """Launch a job; its requests are numbered from the one behind *last_request* on.

    :raises UsageError: if the line cannot be read.
    :raises StartError: if the job or the session cannot be started; the job is ended.
    """
    if options.host:
        raise UsageError(f"--host is for attach; to launch there: ssh {options.host} pgdb launch …")
    if options.connect:
        raise UsageError(
            "--connect is for attach: held ranks report to the front end; --listen ADDRESS names "
            "one that they can reach"
        )
    gdb_version = await _check_gdb(options)
    line = await asyncio.to_thread(read_launch_line, argv, options.launcher)
    for doubt in line.doubts:
        on_step(f"note: {doubt}")
    for program in line.programs:
        path = check_program(program, os.environ.get("PATH", os.defpath))
        if note := rights_lost(path):
            on_step(f"note: {note}")
    recorder = ""
    if options.mpi_record:
        from pgdb.frontend.mpi_recorder.library import build_recorder

        recorder = await build_recorder(argv[0], options.mpicc, on_step)
    directory = SessionDirectory()
    starting = prepare("launch", options, directory, LocalSite(directory.path), on_step, listener)
    session = starting.session
    starting.overlay.root.number_after(last_request)
    session.description, session.gdb_version = " ".join(argv), gdb_version
    session.argv = tuple(argv)
    session.mpi_version = line.launcher.version
    spawned = SpawnedWorlds(session, starting.overlay)
    holds_spawned = options.spawned == "hold" and bool(line.held_by_agent(("true",)))
    if options.spawned == "hold" and not holds_spawned:
        on_step(
            f"note: {line.launcher.family} cannot hold ranks of MPI_Comm_spawn before main; PGDB "
            "attaches to them when it sees them, as ranks stop"
        )
    on_spawned = spawned.take_held if holds_spawned else None
    await starting.run(launch_shares(starting, line, stdin, on_spawned, preloaded=recorder))
    begin_script(session)
    if session.job is not None:
        spawned.launcher_pid = session.job.pid
        if not holds_spawned:
            spawned.watch()
    return session


async def _check_gdb(options: SessionOptions) -> str:
    """Return the version of this host's GDB; empty with ``--host``, where the remote GDB counts.

    :raises StartError: if there is no GDB that can be used.
    """
    return "" if options.host else await asyncio.to_thread(check_gdb, options.gdb)


async def open_site(options: SessionOptions, directory: SessionDirectory) -> Site:
    """Return the site on which jobs are searched: this host, or that of ``--host``.

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
