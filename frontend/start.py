"""How a session starts: find or launch the job, raise the overlay, take hold of the ranks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, Literal, TypeVar

from pgdb.errors import (
    DiscoveryError,
    PermissionToTraceError,
    PgdbError,
    RankSetError,
    StartError,
)
from pgdb.frontend.answers import Answer
from pgdb.frontend.job import JobLauncher, StreamName
from pgdb.frontend.options import SessionOptions
from pgdb.frontend.overlay import SessionDirectory
from pgdb.frontend.session import Listener, Session
from pgdb.jobs import hold, procfs
from pgdb.jobs.ladder import FoundJob, find_job
from pgdb.jobs.launchers import (
    Launcher,
    check_program,
    find_launcher,
    launcher_of_process,
    parse_launch_line,
)
from pgdb.overlay.messages import Acquire, Setup, Share
from pgdb.overlay.topology import share_out
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet
from pgdb.records import Failure, Stop

MINIMUM_GDB = (12, 1)
"""Oldest GDB that has what we use: MI 3 with asynchronous attach, index cache settings."""
_HOLD_MARGIN_S = 30.0
_MAX_REPORT_BYTES = 1 << 20
T = TypeVar("T")

OnStep = Callable[[str], None]


async def attach(
    pid: int,
    options: SessionOptions | None = None,
    *,
    on_step: OnStep = lambda step: None,
    listener: Listener | None = None,
) -> Session:
    """Attach to the running job of the launcher *pid*, which goes on if anything fails.

    *on_step* is told how the start gets on, *listener* what the session tells from its first
    moment on.

    :raises StartError: if its ranks are not found, or none of them can be attached to.
    """
    options = options or SessionOptions()
    gdb_version = check_gdb(options.gdb)
    found = await asyncio.to_thread(find_job, pid)
    if options.verbose:
        for step in found.steps:
            on_step(f"{step.name}: {step.outcome}")
    table = _wanted(found, options.ranks)
    refusals = [procfs.why_not_traceable(process.pid) for process in table.processes]
    if all(refusals):
        raise PermissionToTraceError(f"none of the ranks can be attached to: {refusals[0]}")
    launcher = launcher_of_process(found.launcher_pid) or _any_launcher()
    on_step(f"found {_count(len(table.processes), 'rank')} ({table.source})")
    if found.ended:
        on_step(f"note: ranks [{found.ended}] have ended already")
    return await _start(
        "attach",
        options,
        launcher=launcher,
        gdb_version=gdb_version,
        get_table=_given(table),
        on_step=on_step,
        listener=listener,
        description=f"{launcher.path.name} {found.launcher_pid}",
    )


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
    gdb_version = check_gdb(options.gdb)
    line = await asyncio.to_thread(parse_launch_line, argv)
    for doubt in line.doubts:
        on_step(f"note: {doubt}")
    for program in line.programs:
        check_program(program, os.environ.get("PATH", os.defpath))
    return await _start(
        "launch",
        options,
        launcher=line.launcher,
        gdb_version=gdb_version,
        get_table=_launching(line.held, stdin),
        on_step=on_step,
        listener=listener,
        description=" ".join(argv),
    )


GetTable = Callable[[Session], Coroutine[Any, Any, ProcTable]]


def _given(table: ProcTable) -> GetTable:
    async def get(session: Session) -> ProcTable:
        del session
        return table

    return get


def _launching(held: Callable[[Sequence[str]], tuple[str, ...]], stdin: int | None) -> GetTable:
    async def get(session: Session) -> ProcTable:
        return await _launch_held(session, held, stdin)

    return get


async def _start(
    mode: Literal["attach", "launch"],
    options: SessionOptions,
    *,
    launcher: Launcher,
    gdb_version: str,
    get_table: GetTable,
    on_step: OnStep,
    listener: Listener | None,
    description: str,
) -> Session:
    directory = SessionDirectory()
    session = Session(mode, options, directory)
    session.description, session.gdb_version = description, gdb_version
    session.mpi_version = launcher.version
    if listener is not None:
        session.subscribe(listener)
    try:
        async with asyncio.timeout(options.start_timeout_s):
            # The aggregators come up while the job's ranks do.
            async with _both(session.overlay.start(launcher), get_table(session)) as table:
                session.table = table
            on_step(
                f"{len(table.processes)} ranks on {_count(len(table.hosts), 'host')}, "
                f"{_count(options.aggregators, 'aggregator')}, fan-out {options.fan_out}"
            )
            await _acquire(session, mode)
    except TimeoutError:
        got, wanted = session.overlay.progress()
        words = session.overlay.last_words()
        await session.close()
        raise StartError(
            f"the session did not start within {options.start_timeout_s:g} s "
            f"(aggregators {got}/{wanted}); --timeout gives it longer. {words}".rstrip()
        ) from None
    except BaseException:
        # Whatever it was, a launched job must not stay behind half held, and no attached one
        # may stay attached.
        await asyncio.shield(session.close())
        raise
    return session


@contextlib.asynccontextmanager
async def _both(
    overlay: Coroutine[Any, Any, None], table: Coroutine[Any, Any, T]
) -> AsyncIterator[T]:
    tasks = (asyncio.ensure_future(overlay), asyncio.ensure_future(table))
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
    yield tasks[1].result()


async def _acquire(session: Session, mode: Literal["attach", "launch"]) -> None:
    options, table = session.options, session.table
    ranks = table.ranks
    session.begin(ranks)
    pids = {process.rank: process.pid for process in table.processes}
    shares = []
    for node, share in enumerate(share_out(ranks, options.aggregators)):
        shares.append(
            Share(
                node=node,
                index=node,
                ranks=share,
                pids=tuple(pids[rank] for rank in share) if mode == "attach" else (),
            )
        )
    session.overlay.root.apply_setup(
        Setup(
            shares=tuple(shares),
            mark=session.directory.mark if mode == "launch" else "",
            gdb=find_gdb(options.gdb) or options.gdb,
            gdb_commands=options.gdb_commands,
            program=options.program,
        )
    )
    answer = await session.ask(
        "launch" if mode == "launch" else "attach",
        Acquire(),
        ranks,
        timeout_s=options.start_timeout_s,
    )
    _check_start(answer, mode)
    session.started(answer)


def _check_start(answer: Answer, mode: str) -> None:
    if any(isinstance(each.record, Stop) for each in answer.classes):
        return
    for each in answer.classes:
        if isinstance(each.record, Failure):
            kind = PermissionToTraceError if "cannot attach" in each.record.message else StartError
            raise kind(f"[{each.ranks}] {each.filled.message}")  # type: ignore[union-attr]
    if answer.classes:
        raise StartError(
            f"the program ended on [{answer.classes[0].ranks}] before it could be stopped"
            + (" in main" if mode == "launch" else "")
        )
    raise StartError(f"no rank could be taken hold of; no answer from [{answer.missing.ranks}]")


def _wanted(found: FoundJob, ranks: RankSet | None) -> ProcTable:
    table = found.table
    elsewhere = table.ranks - found.local_ranks
    if ranks is None:
        ranks = table.ranks - elsewhere
    if unknown := ranks - table.ranks:
        raise RankSetError(f"no rank {unknown}; the job has {table.ranks}")
    if far := ranks & elsewhere:
        raise DiscoveryError(
            f"ranks [{far}] are on other hosts, which this version cannot reach; "
            f"--ranks {table.ranks - elsewhere} takes those of this host"
        )
    if not ranks:
        raise DiscoveryError("all ranks of this job are on other hosts; start pgdb there")
    return table.only(ranks)


def _any_launcher() -> Launcher:
    """Return a launcher for the aggregators where the job's own is none that can start ours."""
    for word in ("mpirun", "mpiexec", "srun"):
        with contextlib.suppress(PgdbError):
            return find_launcher(word)
    raise StartError(
        "there is no mpirun, mpiexec or srun in PATH to start the aggregators with; "
        "install an MPI (pip install 'pgdb-mpi[embedded]' brings MPICH)"
    )


# -- launching ---------------------------------------------------------------------------------


async def _launch_held(
    session: Session,
    held: Callable[[Sequence[str]], tuple[str, ...]],
    stdin: int | None,
) -> ProcTable:
    options, directory = session.options, session.directory
    reports = _Reports(directory.mark)
    server = await asyncio.start_server(reports.serve, "127.0.0.1", 0, limit=_MAX_REPORT_BYTES)
    port = server.sockets[0].getsockname()[1]
    prefix = (
        sys.executable,
        "-I",
        "-S",
        hold.__file__,
        directory.mark,
        f"127.0.0.1:{port}",
        str(options.start_timeout_s + _HOLD_MARGIN_S),
        str(options.aggregators),
        "--",
    )

    def output(stream: StreamName, data: bytes) -> None:
        session.take_output(stream, data)

    session.job = await JobLauncher.start(
        held(prefix),
        environment=os.environ,
        on_output=output,
        stdin=stdin,
        leftover=directory.leftover_output,
    )
    session.watch_job()
    ended = asyncio.ensure_future(session.job.process.wait())
    complete = asyncio.ensure_future(reports.wait_complete())
    try:
        await asyncio.wait((ended, complete), return_when=asyncio.FIRST_COMPLETED)
        if not complete.done():
            await session.job.wait_output_read()
            raise StartError(
                f"the job ended (status {ended.result()}) before its ranks could be held; "
                "what its launcher said is above"
            )
        return complete.result()
    finally:
        ended.cancel()
        complete.cancel()
        session.on_close(reports.close(server))


class _Reports:
    """Hears the first held rank of each host; its connection lasts until it is let go."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._table: asyncio.Future[ProcTable] = asyncio.get_running_loop().create_future()
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one report and keep the connection."""
        try:
            line = await reader.readuntil(b"\n")
            fields = line.decode("utf-8", "surrogateescape").rstrip("\n").split("\0")
            if len(fields) < 9 or fields[0] != self._mark:
                return
            self._take(fields)
            self._writers.append(writer)
            # The rank executes its program, which closes its end.
            await reader.read()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Anybody may connect here; what is no report of this session is nobody's loss.
            pass
        finally:
            writer.close()

    def _take(self, fields: list[str]) -> None:
        rank, size, _local_rank, local_size, pid = (int(field) for field in fields[1:6])
        host, program = fields[6], fields[8]
        if self._table.done():
            return
        if 0 < local_size < size:
            self._table.set_exception(
                StartError(
                    f"{size - local_size} of the {size} ranks are on other hosts than {host}, "
                    "which this version cannot reach; launch on one host"
                )
            )
            return
        # Where the others are is known to the aggregator of their host; here they only count.
        processes = tuple(
            RankProcess(rank=each, host=host, pid=pid if each == rank else 0, executable=program)
            for each in range(size)
        )
        self._table.set_result(ProcTable(processes=processes, source="held ranks"))

    async def wait_complete(self) -> ProcTable:
        """Wait until all ranks are known."""
        return await asyncio.shield(self._table)

    async def close(self, server: asyncio.Server) -> None:
        """Close all connections, at which ranks that are still held go on."""
        server.close()
        for writer in self._writers:
            writer.close()


# -- GDB ---------------------------------------------------------------------------------------

_GDB_VERSION = re.compile(r"(\d+)\.(\d+)\S*$")


def find_gdb(word: str) -> str | None:
    """Return the path of the GDB *word*: from PATH, else from beside our own interpreter."""
    beside = os.path.dirname(sys.executable)
    return shutil.which(word) or shutil.which(word, path=beside)


def check_gdb(word: str) -> str:
    """Return the version of the GDB *word*, e.g. ``13.1``.

    :raises StartError: if there is none, or it is too old.
    """
    path = find_gdb(word)
    if path is None:
        raise StartError(
            f"there is no GDB {word!r} in PATH; install gdb, name one with --gdb, "
            "or pip install 'pgdb-mpi[embedded]'"
        )
    try:
        told = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=20, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StartError(f"{path} cannot be run: {error}") from None
    match = _GDB_VERSION.search(told.partition("\n")[0].strip())
    if match is None:
        raise StartError(f"{path} is no GDB: it calls itself {told.partition(chr(10))[0]!r}")
    version = (int(match[1]), int(match[2]))
    if version < MINIMUM_GDB:
        wanted = ".".join(str(part) for part in MINIMUM_GDB)
        raise StartError(
            f"{path} is GDB {version[0]}.{version[1]}; at least {wanted} is needed "
            "(pip install 'pgdb-mpi[embedded]' brings one; --gdb names one)"
        )
    return f"{version[0]}.{version[1]}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
