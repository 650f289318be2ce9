"""The leaf end of an aggregator: its own ranks, each under a GDB, and what they answer."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import struct
from collections.abc import Callable

from pgdb.backend.inferior import Inferior
from pgdb.backend.looking import NeedsStopError
from pgdb.errors import GdbError
from pgdb.jobs import hold, procfs
from pgdb.jobs.launchers import scrubbed_environment
from pgdb.merge.answer import EquivalenceClass, Merger, Missing
from pgdb.merge.masking import mask_record
from pgdb.overlay.messages import (
    Acquire,
    AnyOperation,
    Backtrace,
    Evaluate,
    Request,
    SelectFrame,
    Setup,
    Share,
)
from pgdb.overlay.rendezvous import USER_LIBRARY_PATH_VARIABLE, USER_PYTHONPATH_VARIABLE
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Failure, Gone, Output, Progress, Record, Running, Stop

LOG = logging.getLogger(__name__)

LET_GO_TIMEOUT_S = 10.0
# print/x and the like ask for numbers; with the letters a, s and i addresses stay addresses.
_NUMBER_FORMATS = frozenset("xoutzdcf")
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid

_EVENTS = (Stop, Exit, Running, Output, Progress, Gone)
_ONLY_EVENTS = (Output, Progress, Gone)

OnAnswer = Callable[[int, int, Record, tuple[str, ...]], None]
OnMissing = Callable[[int, Missing], None]
OnEvent = Callable[[RankSet, Event, tuple[str, ...]], None]


class Leaf:
    """The inferiors of one aggregator."""

    def __init__(self, *, on_answer: OnAnswer, on_missing: OnMissing, on_event: OnEvent) -> None:
        self._on_answer = on_answer
        self._on_missing = on_missing
        self._on_event = on_event
        self._inferiors: dict[int, Inferior] = {}
        self._pids: dict[int, int] = {}
        self._collector: Collector | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        # GDBs that read symbols all at once would only compete for the host's cores.
        self._starting = asyncio.Semaphore(max(2, 2 * (os.cpu_count() or 1)))

    def setup(self, setup: Setup, share: Share) -> None:
        """Learn which ranks are this aggregator's and how to get hold of them."""
        environment = scrubbed_environment(os.environ)
        # GDB has a Python of its own, which may be another one.
        environment["PYTHONPATH"] = environment.pop(USER_PYTHONPATH_VARIABLE, "")
        environment["LD_LIBRARY_PATH"] = environment.pop(USER_LIBRARY_PATH_VARIABLE, "")
        environment = {name: value for name, value in environment.items() if value}
        for rank in share.ranks:
            self._inferiors[rank] = Inferior(
                rank,
                gdb=shutil.which(setup.gdb) or setup.gdb,
                environment=environment,
                gdb_commands=setup.gdb_commands,
                program=setup.program,
                tell=self._tell,
            )
        self._pids = dict(zip(share.ranks, share.pids, strict=False))
        if setup.mark:
            self._collector = Collector(setup.mark, share.index)
            self._collector.listen()

    def ask(self, request: Request, ranks: RankSet) -> None:
        """Have *ranks* answer; each answer comes through the callbacks, in its own time."""
        for rank in ranks:
            task = asyncio.create_task(self._answer(request, rank))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def states(self) -> tuple[EquivalenceClass[Event], ...]:
        """Return what the ranks are doing, for a new parent."""
        merger: Merger[Event] = Merger()
        for rank, inferior in self._inferiors.items():
            event = inferior.current_event
            if event is not None:
                masked = mask_record(event)
                merger.add(RankSet([rank]), event_of(masked.record), masked.slots)
        return merger.classes

    async def close(self) -> None:
        """Let all ranks go, free and without breakpoints, and end their GDBs."""
        if self._collector is not None:
            self._collector.close()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        results = await asyncio.gather(
            *(inferior.let_go(LET_GO_TIMEOUT_S) for inferior in self._inferiors.values()),
            return_exceptions=True,
        )
        for result in results:
            if isinstance(result, BaseException):
                LOG.error("letting a rank go failed", exc_info=result)

    async def _answer(self, request: Request, rank: int) -> None:
        inferior = self._inferiors[rank]
        operation = request.operation
        try:
            if isinstance(operation, Acquire):
                record = await self._acquire(inferior, request.request_id)
            else:
                record = await inferior.perform(operation, request.request_id)
        except NeedsStopError:
            self._on_missing(request.request_id, Missing(running=RankSet([rank])))
            return
        except GdbError as error:
            record = Failure(message=str(error))
        except Exception:
            # One request of one rank: the others go on, and the trace is in the log.
            LOG.exception("rank %d: %r failed", rank, operation)
            record = Failure(message="internal error of PGDB; see the aggregator's log")
        masked = mask_record(
            record,
            numbers_are_data=_asks_for_numbers(operation),
            join_arguments=_joins_arguments(operation),
        )
        self._on_answer(request.request_id, rank, record_of(masked.record), masked.slots)

    async def _acquire(self, inferior: Inferior, request_id: int) -> Record:
        if self._collector is None:
            pid = self._pids[inferior.rank]
            async with self._starting:
                await inferior.start_gdb()
                return await inferior.attach(pid, request_id)
        held = await self._collector.wait_held(inferior.rank)
        self._tell(inferior.rank, Progress(stage="held"))
        async with self._starting:
            await inferior.start_gdb()
            return await inferior.take_held(held, request_id)

    def _tell(self, rank: int, event: Event) -> None:
        if isinstance(event, Gone):
            LOG.warning("rank %d: %s", rank, event.why)
        masked = mask_record(event)
        self._on_event(RankSet([rank]), event_of(masked.record), masked.slots)


class Collector:
    """Hears which ranks of this host are held, from themselves.

    A rank that came before us is found in /proc; one that comes later sends a datagram. The
    kernel vouches for its process and user.
    """

    def __init__(self, mark: str, share_index: int) -> None:
        self._mark = mark
        self._share_index = share_index
        self._held: dict[int, int] = {}  # rank -> process id
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._socket: socket.socket | None = None

    def listen(self) -> None:
        """Begin to hear datagrams, then look for ranks that are held already."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(hold.collector_address(self._mark, self._share_index))
        asyncio.get_running_loop().add_reader(self._socket, self._receive)
        for pid in procfs.all_pids():
            self._look_at(pid)

    def close(self) -> None:
        """Stop listening."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None

    async def wait_held(self, rank: int) -> int:
        """Wait until *rank* is held, return its process id; whoever waits brings a deadline."""
        if rank not in self._held:
            waiting = self._waiting.setdefault(rank, asyncio.get_running_loop().create_future())
            await asyncio.shield(waiting)
        return self._held[rank]

    def _receive(self) -> None:
        assert self._socket is not None
        while True:
            try:
                _, control, _, _ = self._socket.recvmsg(65536, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                return
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                    pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
                    if uid in (os.getuid(), 0):
                        self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        status = procfs.read_stat(pid)
        if status is None or status.comm != hold.HELD_NAME:
            return
        line = procfs.command_line(pid)
        environment = procfs.environment(pid)
        if line is None or environment is None or self._mark not in line:
            return
        identity = procfs.rank_environment(environment)
        rank = identity.rank if identity is not None else 0
        self._held[rank] = pid
        waiting = self._waiting.pop(rank, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(pid)


def record_of(record: Record | Event) -> Record:
    """Narrow a masked record to an answer."""
    assert not isinstance(record, _ONLY_EVENTS)
    return record


def event_of(record: Record | Event) -> Event:
    """Narrow a masked record to an event."""
    assert isinstance(record, _EVENTS)
    return record


def _joins_arguments(operation: AnyOperation) -> bool:
    return isinstance(operation, SelectFrame) or (
        isinstance(operation, Backtrace) and not operation.split
    )


def _asks_for_numbers(operation: AnyOperation) -> bool:
    return isinstance(operation, Evaluate) and any(
        letter in _NUMBER_FORMATS for letter in operation.format
    )
