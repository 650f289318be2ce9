"""Launch of a job whose ranks wait in the hold program, and the reports of their hosts."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pgdb.errors import StartError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.incoming_reports import IncomingReports, offered_addresses
from pgdb.frontend.startup.job import JobLauncher, StreamName
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.shipping import carried_program
from pgdb.jobs import hold, world_keys
from pgdb.overlay import addresses

_HOLD_MARGIN_S = 30.0
_FIELDS = 10
_READ_AHEAD_BYTES = 1 << 14
"""Limit of the data read ahead from each connection, in bytes, before it has reported."""
MAX_PENDING = 512
"""Largest number of connections without a report; one more replaces the oldest."""
T = TypeVar("T")


class HeldJob:
    """A launched job all of whose ranks are held or about to be."""

    def __init__(self, session: Session, listening: asyncio.Server, reports: Reports) -> None:
        self._session = session
        self._listening = listening
        self._holds_spawned = False
        self.reports = reports

    @classmethod
    async def launch(
        cls,
        session: Session,
        directory: SessionDirectory,
        held: Callable[[Sequence[str]], tuple[str, ...]],
        *,
        holds_spawned: bool = False,
        stdin: int | None,
        on_this_host_only: bool,
        preloaded: str = "",
    ) -> HeldJob:
        """Start the job's launcher with the line that *held* makes of the hold program's line.

        With *holds_spawned* that line has the ranks of MPI_Comm_spawn held too. *preloaded* is a
        library for all ranks, empty for none.

        :raises StartError: if it cannot be started.
        """
        options = session.options
        reports = Reports(directory.mark)
        offered = offered_addresses(options.listen, on_this_host_only=on_this_host_only)
        listening = await asyncio.start_server(reports.serve, offered, 0, limit=_READ_AHEAD_BYTES)
        # asyncio assigns a port of its own to every address.
        names = [each.getsockname() for each in listening.sockets]
        prefix = (
            *_hold_program(options),
            directory.mark,
            ",".join(f"{name[0]}:{name[1]}" for name in names),
            str(options.start_timeout_s + _HOLD_MARGIN_S),
            str(options.aggregators),
            *filter(None, [preloaded]),
            "--",
        )

        def output(stream: StreamName, data: bytes) -> None:
            session.ending.on_output(stream, data)

        launcher = await JobLauncher.start(
            held(prefix),
            environment=os.environ,
            on_output=output,
            stdin=stdin,
            leftover=directory.leftover_output,
        )
        session.ending.watch_job(launcher)
        job = cls(session, listening, reports)
        job._holds_spawned = holds_spawned
        session.ending.add(job._close())
        return job

    async def wait_known(self) -> None:
        """Wait until the hosts of all ranks are known.

        :raises StartError: if the job ends before that.
        """
        await self.unless_it_ends(self.reports.known.wait())
        # All hosts have reported; existing connections stay open.
        if not self._holds_spawned:
            self._listening.close()

    async def unless_it_ends(self, waiting: Coroutine[Any, Any, T]) -> T:
        """Return the result of *waiting*.

        :raises StartError: if the job ends before that.
        """
        job = self._session.job
        assert job is not None
        ended = asyncio.ensure_future(job.process.wait())
        waited = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait((ended, waited), return_when=asyncio.FIRST_COMPLETED)
            if waited.done():
                return waited.result()
            await job.wait_output_read()
            raise StartError(
                f"the job ended (status {ended.result()}) before its ranks could be held; "
                "its launcher's messages are above"
            )
        finally:
            ended.cancel()
            waited.cancel()

    async def _close(self) -> None:
        self._listening.close()
        self.reports.close()


class HeldWorld:
    """The ranks of one MPI_Comm_spawn, each of which is held by its own connection."""

    def __init__(self, size: int, program: str) -> None:
        self.size = size
        self.program = program
        self.pids: dict[int, int] = {}
        """The process of each rank that has reported."""
        self._writers: list[asyncio.StreamWriter] = []

    def add(self, rank: int, pid: int, writer: asyncio.StreamWriter) -> bool:
        """Add a report; return whether all ranks are held now."""
        self.pids[rank] = pid
        self._writers.append(writer)
        return len(self.pids) == self.size

    def release(self) -> None:
        """Let the ranks run on that are still held."""
        for each in self._writers:
            each.close()


class Reports:
    """Receiver of reports from the first held rank of each host; its connection holds the ranks."""

    def __init__(self, mark: str) -> None:
        self._incoming = IncomingReports(mark)
        self._writers: list[asyncio.StreamWriter] = []
        self._pending: dict[asyncio.StreamWriter, None] = {}  # oldest first
        self._local_sizes: dict[tuple[str, str, str], int] = {}
        self._spawned: dict[str, HeldWorld] = {}
        self.on_spawned: Callable[[HeldWorld], None] = HeldWorld.release
        """Called when all ranks of a world of MPI_Comm_spawn are held."""
        self.known = asyncio.Event()
        """Set when the hosts of all ranks have reported."""
        self.hosts: dict[tuple[str, str, str], str] = {}
        """Host names for the start of aggregators, by each host's names and address."""
        self.size = 0
        self.program = ""
        self.slurm_job = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one report and keep the connection."""
        self._pending[writer] = None
        if len(self._pending) > MAX_PENDING:
            oldest = next(iter(self._pending))
            del self._pending[oldest]
            oldest.transport.abort()
        try:
            fields = await self._read(reader, writer)
            self._pending.pop(writer, None)
            if not fields:
                return
            self._writers.append(writer)
            if len(fields) > _FIELDS:
                self._take_spawned(fields, writer)
            else:
                self._take(fields, writer.get_extra_info("peername")[0])
            # The rank closes its end when it executes its program. It sends nothing more.
            await reader.read(1)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # Anybody may connect here; a connection without a report of this session is dropped.
            pass
        except asyncio.CancelledError:
            # The loop ends; asyncio would report the cancelled task of a server as an error.
            pass
        finally:
            self._pending.pop(writer, None)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[str]:
        """Read the fields of a report; none if it is not of this session, or a repeated one."""
        fields = await self._incoming.read(reader, writer)
        if len(fields) not in (_FIELDS, _FIELDS + 1):
            return []
        name, alias, slurm_job = fields[6:9]
        # The names become words of the line that starts the aggregators.
        if len(fields) > _FIELDS and not world_keys.is_open_mpi(fields[_FIELDS]):
            return []
        are_names = addresses.is_host_name(name) and (not alias or addresses.is_host_name(alias))
        return fields if are_names and (not slurm_job or slurm_job.isdecimal()) else []

    def _take(self, fields: list[str], peer: str) -> None:
        _rank, size, _local_rank, local_size, _pid = (int(field) for field in fields[1:6])
        name, alias, slurm_job, program = fields[6:]
        key = (name, alias, peer)
        self._local_sizes[key] = local_size
        # Launchers know a Slurm host by its name in Slurm, any other host by its own name if that
        # resolves here.
        known = alias or (name if addresses.resolve(name) is not None else peer)
        self.hosts[key] = known
        self.size, self.program = size, self.program or program
        self.slurm_job = self.slurm_job or slurm_job
        if sum(self._local_sizes.values()) >= size:
            self.known.set()

    def _take_spawned(self, fields: list[str], writer: asyncio.StreamWriter) -> None:
        rank, size, pid = int(fields[1]), int(fields[2]), int(fields[5])
        program, name = fields[9:]
        world = self._spawned.setdefault(name, HeldWorld(size, program))
        if world.add(rank, pid, writer):
            del self._spawned[name]
            self.on_spawned(world)

    def progress(self) -> str:
        """Return the progress in words."""
        count = sum(self._local_sizes.values())
        if not count:
            return "no rank is held yet"
        return f"{count} of {self.size} ranks are held, on {', '.join(self.hosts.values())}"

    @property
    def all_here(self) -> bool:
        """Whether all ranks are on this host."""
        own = addresses.own_names()
        return all(name in own for name, _, _ in self.hosts) and len(self.hosts) == 1

    def close(self) -> None:
        """Close all connections, which releases the ranks that are still held."""
        for writer in self._writers:
            writer.close()


def _hold_program(options: SessionOptions) -> tuple[str, ...]:
    """Return the words before the program's own; -I and -S make the hold program start quickly."""
    if options.ship:
        return carried_program(Path(hold.__file__), options.remote_python or "python3")
    return (options.remote_python or sys.executable, "-I", "-S", hold.__file__)
