"""One rank as a core file: looked at with GDB, never run.

GDB is a means that can be replaced at any time: a core file does not change. A GDB that dies or
that makes room for another one is started again for the next operation, and gets the settings, the
thread and the frame that the earlier one had.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from msgspec.structs import replace

from pgdb.backend.care import liveness
from pgdb.backend.gdb.command_kinds import computes, prints_values
from pgdb.backend.gdb.command_limits import PRINTING_SHARE, TOOK_TOO_LONG
from pgdb.backend.gdb.core_seats import Seats
from pgdb.backend.gdb.loaded_core import LoadedCore
from pgdb.backend.gdb.mi import console
from pgdb.backend.rank.protocol import State
from pgdb.backend.zygote.core_programs import program_of
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.cores.core_file import CoreFile, CoreFileError, environment_of_core, read_core
from pgdb.cores.core_set import mismatch
from pgdb.errors import GdbError, PgdbError
from pgdb.overlay.messages import AnyOperation, Console, Script
from pgdb.overlay.operation import NO_CAPABILITY
from pgdb.overlay.operations import ReadFile
from pgdb.patterns import pattern
from pgdb.records import Block, Event, Exit, Failure, Progress, Record, Stop

LOG = logging.getLogger(__name__)

NEEDS_PROCESS = "a core file has no process: it can be looked at, but neither run nor changed"
_QUIT = "Quit"
_STARTED = "it made GDB start a program; GDB was ended, and reads the core file again"
# Commands of GDB's that would take the core away, or start a program.
_TAKES_AWAY = pattern(
    r"\s*(?:r|ru|run|sta|star|start|starti|attach|core(?:-file)?|target|exec-file|detach|k|kill"
    r"|disconnect|checkpoint)\b"
)
_CHANGES_GDB = pattern(
    r"\s*(?:set|unset|define|document|directory|dir|skip|alias|source|python|py|handle|cd|path"
    r"|add-symbol-file|symbol-file|sharedlibrary|init-if-undefined)\b"
)
"""Commands that are repeated in a new GDB."""
_MOST_REPEATED = 1000


class CoreDebugger:
    """The debugger of one rank that is a core file; lives on the aggregator's event loop."""

    capabilities = NO_CAPABILITY

    def __init__(
        self,
        rank: int,
        path: str,
        *,
        executable: str,
        gdb_factory: GdbFactory,
        seats: Seats,
        opening: asyncio.Semaphore,
        working: asyncio.Semaphore,
        notify: Callable[[int, Event], None],
    ) -> None:
        self.rank = rank
        self._path, self._executable = path, executable
        self._factory, self._seats = gdb_factory, seats
        self._opening, self._working = opening, working
        self._notify = notify
        self._core: CoreFile | None = None
        self._loaded: LoadedCore | None = None
        self._state: State = "new"
        self._stop: Stop | None = None
        self._lock = asyncio.Lock()
        self._giving_up: asyncio.Future[None] | None = None
        self._repeated: list[AnyOperation] = []
        self._selected: tuple[str, str] | None = None
        self._due_s: float | None = None
        self._is_limited = False

    # -- the interface of the leaf -----------------------------------------------------------------

    @property
    def state(self) -> State:
        """State of the rank."""
        return self._state

    @property
    def current_event(self) -> Event | None:
        """The place where the process died; None before the core is loaded."""
        return self._stop

    @property
    def program_pid(self) -> int | None:
        """0: there is no process."""
        return 0

    @property
    def gdb_pid(self) -> int:
        """Process id of this rank's GDB, 0 if it has none at the moment."""
        return self._loaded.gdb.pid if self._loaded is not None else 0

    async def attach(
        self, pid: int, request_id: int, *, is_retried: bool = False, is_held_back: bool = False
    ) -> Record:
        """Load the core and return where the process died.

        :raises GdbError: if the core cannot be read, or GDB ends.
        """
        del pid, is_retried, is_held_back
        try:
            core = self._core = await asyncio.to_thread(read_core, self._path)
        except PgdbError as error:
            raise GdbError(f"{self._path} {error}") from None
        notes = await asyncio.to_thread(self._notes, core)
        async with self._lock, self._seated():
            loaded = await self._load()
            self._notify(self.rank, Progress(stage="attached"))
            self._stop = await loaded.stop(request_id, notes)
            self._state = "stopped"
            return self._stop

    async def acquire_held(self, pid: int, request_id: int, *, runs_on: bool = True) -> Record:
        """Load the core: it has no process that could be held."""
        del runs_on
        return await self.attach(pid, request_id)

    async def perform(
        self,
        operation: AnyOperation,
        request_id: int,
        timeout_s: float | None = None,
        *,
        of_ended: bool = False,
    ) -> Record:
        """Carry out one operation and return its answer; it is overdue after *timeout_s*."""
        del of_ended
        if operation.needs_process:
            return Failure(message=NEEDS_PROCESS)
        if isinstance(operation, Console) and _TAKES_AWAY.match(operation.command):
            return Failure(message=NEEDS_PROCESS)
        if self._state != "stopped":
            return Failure(message="the core file of this rank is not loaded")
        if isinstance(operation, ReadFile) and self._is_environment(operation.path):
            return await asyncio.to_thread(_environment, self._path, operation)
        async with self._lock:
            try:
                async with self._seated():
                    # The time without a seat is not the GDB's.
                    if timeout_s is not None:
                        self._due_s = asyncio.get_running_loop().time() + timeout_s
                    return await self._perform(operation, request_id, timeout_s)
            except GdbError as error:
                return Failure(message=f"no debugger: {error}")
            finally:
                self._due_s = None

    async def is_silent(self) -> bool:
        """Return whether GDB hangs in an overdue operation; takes some seconds if so."""
        due_s = self._due_s
        if due_s is None or asyncio.get_running_loop().time() < due_s:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(liveness.QUIET_S), self._lock:
                return False
        return self._due_s == due_s

    async def has_debugger(self, timeout_s: float) -> bool:
        """Return whether GDB answers within *timeout_s*, or can be started."""
        loaded = self._loaded
        if self._state != "stopped" or loaded is None or not loaded.gdb.is_alive:
            return self._state == "stopped"
        return await liveness.answers(loaded.gdb, timeout_s)

    def note_end(self) -> Exit:
        """Raise an error: the end of a core's process is no event."""
        raise AssertionError("a core file does not end")

    async def detach(self, timeout_s: float) -> None:
        """End the GDB."""
        del timeout_s
        self._state = "detached"
        await self.abandon()

    async def abandon(self, *, holds_back: bool = False) -> bool:
        """End the GDB at once; nothing is lost by that."""
        del holds_back
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            loaded.gdb.kill()
            await loaded.close()
        self._seats.leave(self)
        return False

    async def give_up(self) -> None:
        """End the GDB, which another core needs room for; the next operation starts another one."""
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        done = self._giving_up = asyncio.get_running_loop().create_future()
        try:
            with contextlib.suppress(GdbError):
                self._selected = await _selection(loaded)
            await loaded.close()
        finally:
            done.set_result(None)
            self._giving_up = None

    # -- inside ------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _seated(self):  # type: ignore[no-untyped-def]
        await self._seats.take(self)
        try:
            # The seat comes first: a core that has a GDB is to answer before it has to leave.
            async with self._working:
                yield
        finally:
            self._seats.release(self)

    def _is_environment(self, path: str) -> bool:
        """Return whether a file is the environment of the process, which is in the core."""
        return self._core is not None and path == f"/proc/{self._core.pid}/environ"

    def _notes(self, core: CoreFile) -> list[str]:
        notes = []
        if core.missing_bytes:
            notes.append("its core file is truncated: parts of the stack and of data are missing")
        executable = program_of(core, self._executable).executable
        if not executable:
            name = core.program or "its program"
            notes.append(f"{name} is not here, so that there are no names; --exe names it")
        elif words := mismatch(core, executable):
            notes.append(words)
        return notes

    async def _load(self) -> LoadedCore:
        """Return a GDB that has read the core.

        :raises GdbError: if it cannot be started.
        """
        if self._giving_up is not None:
            await self._giving_up
        loaded = self._loaded
        if loaded is not None and loaded.gdb.is_alive and not loaded.is_unloaded:
            return loaded
        if loaded is not None:
            await loaded.close()
        assert self._core is not None
        is_again = self._state == "stopped"
        loaded = LoadedCore(self.rank, self._core, self._core.identity)
        async with self._opening:
            await loaded.load(self._factory, program_of(self._core, self._executable))
            self._loaded = loaded
            await self._seats.fit(loaded.gdb.pid)
            if is_again:
                await self._restore(loaded)
        return loaded

    async def _restore(self, loaded: LoadedCore) -> None:
        """Repeat the user's settings in a new GDB, and select the frame that was selected."""
        for each in self._repeated:
            await loaded.operations.perform(each, 0, 0)
        selected = self._selected
        if selected is None and self._stop is not None and self._stop.frame is not None:
            selected = loaded.gdb.first_thread, str(self._stop.frame.level)
        if selected is not None:
            thread, level = selected
            await loaded.gdb.send(f"-thread-select {thread}")
            await loaded.gdb.send(console(f"frame {level}"))

    async def _perform(
        self, operation: AnyOperation, request_id: int, timeout_s: float | None
    ) -> Record:
        try:
            return await self._perform_once(operation, request_id, timeout_s)
        except GdbError as error:
            LOG.warning("rank %d: %s", self.rank, error)
            # Another GDB can answer, unless the operation itself ends GDBs.
            return await self._perform_once(operation, request_id, timeout_s)

    async def _perform_once(
        self, operation: AnyOperation, request_id: int, timeout_s: float | None
    ) -> Record:
        loaded = await self._load()
        limit = None
        self._is_limited = False
        if timeout_s is not None and operation.can_last:
            if prints_values(operation) or computes(operation):
                loop = asyncio.get_running_loop()
                limit = loop.call_later(PRINTING_SHARE * timeout_s, self._interrupt, loaded)
        try:
            record = await loaded.operations.perform(operation, request_id, 0)
        except GdbError:
            if loaded.has_run:
                return Failure(message=_STARTED)
            raise
        finally:
            if limit is not None:
                limit.cancel()
        if loaded.has_run:
            return Failure(message=_STARTED)
        if isinstance(record, Failure):
            if self._is_limited:
                return replace(record, message=TOOK_TOO_LONG.format(record.message))
            return replace(record, message="interrupted") if record.message == _QUIT else record
        self._keep(operation)
        return record

    def _interrupt(self, loaded: LoadedCore) -> None:
        self._is_limited = True
        loaded.gdb.interrupt()

    def _keep(self, operation: AnyOperation) -> None:
        """Keep an operation that a new GDB of this rank needs, too."""
        is_setting = isinstance(operation, Console) and _CHANGES_GDB.match(operation.command)
        if (is_setting or isinstance(operation, Script)) and operation not in self._repeated:
            self._repeated.append(operation)
            del self._repeated[:-_MOST_REPEATED]


def _environment(path: str, operation: ReadFile) -> Record:
    """Return a part of the environment in a core file, as /proc/PID/environ would have it."""
    try:
        variables = environment_of_core(path)
    except CoreFileError as error:
        return Failure(message=f"{path} {error}")
    whole = "".join(f"{name}={value}\0" for name, value in variables.items()).encode()
    part = whole[operation.start : operation.start + operation.most_bytes]
    return Block(dtype="|u1", shape=(len(whole),), data=part, start=operation.start)


async def _selection(loaded: LoadedCore) -> tuple[str, str] | None:
    """Return the thread and the level of the frame that GDB has selected."""
    thread, frame = await asyncio.gather(
        *loaded.gdb.ask_together("-data-evaluate-expression $_thread", "-stack-info-frame")
    )
    level = frame.payload.get("frame", {}).get("level")
    value = thread.payload.get("value")
    return (str(value), str(level)) if value and level is not None else None
