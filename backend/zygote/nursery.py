"""GDBs that are forked from one that has read the symbols of the ranks' program and libraries.

Reading symbols is most of the time and memory of attaching, and all ranks of a host mostly run
the same program. So one GDB for each program, the nursery, reads them once, attached to nothing,
and is forked for each rank (:mod:`pgdb.backend.gdb.forking_in_gdb` runs inside it and forks).
After any failure a rank gets a GDB that is started for it alone, as without a nursery.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgdb.backend.care.breakpoint_repair import wake
from pgdb.backend.gdb.process import (
    ForkedGdb,
    OnEnd,
    OnLine,
    StandardError,
    command_line,
    environment_with_code,
    how_ended,
    set_limits,
    why_ended,
)
from pgdb.backend.gdb.settings import OWN_DEPTH, settings
from pgdb.backend.sbd.mapped_objects import linked
from pgdb.backend.sbd.rank_files import RankFiles
from pgdb.backend.zygote.core_programs import CoreProgram
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.patterns import pattern

if TYPE_CHECKING:
    from pgdb.backend.zygote.symbol_prefetch import SymbolPrefetch

LOG = logging.getLogger(__name__)

CONTROL_VARIABLE = "PGDB_NURSERY_CONTROL"

# User commands about display, stops and execution, which do not affect the reading of symbols.
_NOT_ABOUT_READING = pattern(
    r"\s*(?:set\s+(?:p|pr|pri|prin|print|pagination|confirm|width|height|verbose|logging|history|style"
    r"|listsize|max-value-size|language|input-radix|output-radix|radix|disassembly-flavor|breakpoint"
    r"|scheduler-locking|step-mode|unwindonsignal|unwind-on-terminating-exception|backtrace"
    r"|can-use-hw-watchpoints|stop-on-solib-events|follow-exec-mode|substitute-path|filename-display"
    r"|host-charset|target-charset|charset|trace-commands|var|variable|environment|args|cwd)\b"
    r"|set\s+\$|(?:handle|skip|directory|dir|alias|echo|show|unset|tty)\b|\#|\Z)"
)
_MAX_ANSWER_BYTES = 1 << 20
# A fork copies the whole page table, and the end of a process frees it: large pages halve that time
# (glibc 2.35; the kernel usually grants them to a program that asks).
_LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432"}
_NAMES_AT_ONCE = 100
STALL_S = 20.0
"""A GDB that does not compute for this time will not finish reading symbols, in seconds."""
_FORK_TIMEOUT_S = 20.0
END_TIMEOUT_S = 5.0
_NO_REASON = "Error while executing Python code"
_MOST_WORDS = 200
_LAST_WORDS_S = 1.0
"""Time that a process may take to end after it closed its socket, in seconds."""


class DebugsGpusError(GdbError):
    """GDB that debugs GPUs, and cannot be forked.

    It opens a connection to the driver in a process that it attaches to, which a fork would share.
    cuda-gdb 13.0 can neither detach from a process while GDB waits for it (see
    :func:`~pgdb.backend.gdb.forking_in_gdb.rehearse`), and its end without that leaves the rank
    with half a connection.
    """


def why_not(commands: Sequence[str]) -> str:
    """Return why GDBs with the user's *commands* cannot be forked, empty if they can.

    A child does not read symbols again, so commands that configure the reading of a program or
    library, or its search paths, would have no effect. A command that is not known to concern other
    things may do so: a file of commands, a script.
    """
    about = next((each for each in commands if not _NOT_ABOUT_READING.match(each)), "")
    return f"'{about.strip()}' may be for GDBs that read libraries themselves" if about else ""


class Nursery:
    """A GDB that has read the symbols of one program, and the GDBs forked from it."""

    def __init__(self, files: RankFiles) -> None:
        self.files = files
        """Files of the ranks that the nursery is for."""
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._stderr = StandardError()
        self._errors = ""
        self._lock = asyncio.Lock()
        self._has_answered = False
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._children: dict[int, ForkedGdb] = {}
        self._codes: dict[int, int] = {}  # of children that ended before we knew them

    @classmethod
    async def begin(
        cls,
        files: RankFiles,
        pid: int,
        gdb: str,
        environment: Mapping[str, str],
        index_cache: IndexCache,
    ) -> Nursery:
        """Start a nursery for these files; the libraries of process *pid* are the ones to read.

        :raises GdbError: if it cannot be started.
        :raises OSError: if the process cannot be read.
        """
        nursery = cls(files)
        await nursery.start(gdb, environment)
        await nursery.read(pid, index_cache)
        return nursery

    @classmethod
    async def begin_for_core(
        cls, program: CoreProgram, gdb: str, environment: Mapping[str, str]
    ) -> Nursery:
        """Start a nursery for the cores of a program; read one of them to learn its stack.

        :raises GdbError: if it cannot be started.
        """
        files = RankFiles("", program.executable, "", (0, 0), ())
        nursery = cls(files)
        await nursery.start(gdb, environment)
        try:
            await nursery._while_it_works_on(nursery._read(program.libraries, index_cache=False))
            try:
                await nursery._while_it_works_on(nursery._ask({"rehearse_core": program.core}))
            except GdbError as error:
                LOG.info("%s: no rehearsal with it: %s", program.core, error)
                if not nursery.is_alive:
                    raise
        except BaseException:
            await nursery.close()
            raise
        return nursery

    async def start(self, gdb: str, environment: Mapping[str, str]) -> None:
        """Start the GDB.

        :raises GdbError: if it cannot be started.
        """
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            self._stderr.close()
            raise GdbError(f"cannot start {gdb}: {error.strerror}") from None
        ours.setblocking(False)
        self._control = ours
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command_line(gdb, "forking_in_gdb"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=self._stderr.file,
                env={
                    **_LARGE_PAGES,
                    **environment_with_code(environment),
                    CONTROL_VARIABLE: str(theirs.fileno()),
                },
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            self._shut()
            self._stderr.close()
            raise GdbError(f"cannot start {gdb}: {error.strerror or error}") from None
        except asyncio.CancelledError:
            # GDB may run already; it ends when its control socket is closed.
            self._shut()
            self._stderr.close()
            raise
        finally:
            theirs.close()
        set_limits(self.pid)
        asyncio.get_running_loop().add_reader(ours, self._receive)

    async def read(self, pid: int, index_cache: IndexCache) -> None:
        """Make the GDB read all symbols, those of the libraries of process *pid* included.

        :raises GdbError: if that fails; the GDB has ended then.
        :raises OSError: if the process cannot be read; likewise.
        """
        try:
            names = await asyncio.to_thread(linked, pid)
            has_cache = await index_cache.is_sound_for(pid)
            await self._while_it_works_on(self._read(names, index_cache=has_cache))
        except BaseException:
            await self.close()
            raise

    async def _read(self, names: Sequence[str], *, index_cache: bool) -> None:
        commands = [
            {"command": each.command, "must": each.must}
            for each in (*settings(index_cache=index_cache), OWN_DEPTH)
        ]
        if (await self._ask({"settings": commands})).get("debugs_gpus"):
            raise DebugsGpusError("its debugger debugs GPUs too")
        parameters = [*self.files.settings]
        if self.files.root:
            parameters.append(("sysroot", self.files.root))
        await self._ask({"parameters": parameters})
        await self._ask({"executable": self.files.executable or self.files.name})
        for first in range(0, len(names), _NAMES_AT_ONCE):
            part = [f"{self.files.root}{each}" for each in names[first:][:_NAMES_AT_ONCE]]
            if failed := (await self._ask({"objects": part})).get("failed"):
                LOG.info("the nursery could not read %s", failed)
        await self._ask({"sealed": True})

    async def _while_it_works_on(self, work: Coroutine[Any, Any, Any]) -> None:
        """Do work of the GDB as long as it computes."""
        task = asyncio.create_task(work)
        try:
            await self._while_it_works(task)
        finally:
            task.cancel()

    async def _while_it_works(self, reading: asyncio.Task[None]) -> None:
        """Wait for a task as long as the GDB computes, which takes minutes for a large program.

        Ranks whose GDBs read the same symbols themselves would be slower still.
        """
        before = -1
        while not (await asyncio.wait((reading,), timeout=STALL_S))[0]:
            ticks, waits_for_disk = procfs.work_done(self.pid)
            if ticks <= before and not waits_for_disk:
                raise GdbError(f"it has not computed for {STALL_S:g} s while reading symbols")
            before = ticks
        await reading

    @property
    def is_alive(self) -> bool:
        """Whether the nursery can fork GDBs."""
        return self._control is not None

    @property
    def pid(self) -> int:
        """Process id of the GDB that has read the symbols, 0 before it is started."""
        return self._process.pid if self._process is not None else 0

    async def fork(self, on_line: OnLine, on_end: OnEnd) -> ForkedGdb:
        """Return a new GDB that has received no command yet.

        :raises GdbError: if none can be forked.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        gdb: ForkedGdb | None = None
        try:
            async with asyncio.timeout(_FORK_TIMEOUT_S):
                answer = await self._ask({"fork": True}, theirs.fileno())
                pid = int(answer["pid"])
                theirs.close()
                gdb = await ForkedGdb.take(ours, pid, on_line, on_end)
                self._children[pid] = gdb
                if pid in self._codes:
                    gdb.exited(self._codes.pop(pid))
                if await gdb.ready:
                    return gdb
                raise GdbError("a forked GDB cannot continue; the aggregator's log may say why")
        except TimeoutError:
            why = GdbError(f"no GDB within {_FORK_TIMEOUT_S:g} s")
        except GdbError as error:
            why = error
        finally:
            theirs.close()
        if gdb is not None:
            gdb.abandon()
        ours.close()
        raise why

    async def rehearse(self, pid: int) -> None:
        """Attach to a process of the program and detach, so that children inherit what GDB learns.

        :raises GdbError: if that fails. A GDB that hangs in it is ended.
        """
        rehearsing = asyncio.create_task(self._ask_to_rehearse(pid))
        try:
            await self._while_it_works(rehearsing)
        except BaseException:
            if not rehearsing.done():
                rehearsing.cancel()
                await self.close()
            raise

    async def _ask_to_rehearse(self, pid: int) -> None:
        await self._ask({"rehearse": pid})

    async def close(self) -> None:
        """End the nursery; the GDBs forked from it live on."""
        self._shut()
        self._collect_errors()
        if self._process is not None:
            # GDB ends when its control socket is closed, but not while it reads symbols.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_TIMEOUT_S):
                    await self._process.wait()
                return
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _ask(self, request: dict[str, Any], descriptor: int | None = None) -> dict[str, Any]:
        async with self._lock:
            if self._control is None:
                raise GdbError(await self._how_ended())
            data = json.dumps(request).encode("utf-8")
            try:
                # Only one request is in flight at a time, so the socket has room for it.
                socket.send_fds(self._control, [data], [] if descriptor is None else [descriptor])
            except OSError as error:
                raise GdbError(f"the nursery cannot be asked: {error.strerror}") from None
            try:
                answer = await self._answers.get()
            except asyncio.CancelledError:
                # The late answer would be matched with the next request.
                self._shut()
                raise
        if "error" in answer:
            raise GdbError(str(answer["error"]))
        if "gone" in answer:
            raise GdbError(await self._how_ended())
        return answer

    async def _how_ended(self) -> str:
        """Return in words how the GDB ended; its control socket is closed."""
        code = None
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    code = await self._process.wait()
        self._collect_errors()
        why = f"the nursery {how_ended(code)}{why_ended(code, self._errors)}"
        if code == 0 and not self._has_answered:
            said = _last_words(self._errors)
            return f"{why}, as a GDB without Python does{f'; it says: {said}' if said else ''}"
        return why

    def _collect_errors(self) -> None:
        """Log the standard error of the nursery and its children."""
        if words := self._stderr.close():
            self._errors = words
            LOG.warning("the nursery %d: %s", self.pid, words.strip())

    def _receive(self) -> None:
        while self._control is not None:
            try:
                data = self._control.recv(_MAX_ANSWER_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._shut()
                self._answers.put_nowait({"gone": True})
                return
            answer = json.loads(data)
            self._has_answered = True
            if "ended" not in answer:
                self._answers.put_nowait(answer)
            elif (child := self._children.pop(answer["ended"], None)) is not None:
                child.exited(answer["code"])
            else:
                self._codes[answer["ended"]] = answer["code"]

    def _shut(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            asyncio.get_running_loop().remove_reader(control)
            control.close()


class Nurseries:
    """The nurseries of one aggregator, one for each program that its ranks run.

    *free* is awaited before the attach to a process; it releases a suspended one.
    """

    def __init__(
        self,
        gdb: str,
        environment: Mapping[str, str],
        notice: Callable[[str], None],
        index_cache: IndexCache,
        free: Callable[[int], Awaitable[None]] | None = None,
        symbol_prefetch: SymbolPrefetch | None = None,
    ) -> None:
        self._free = free
        self._symbol_prefetch = symbol_prefetch
        self._index_cache = index_cache
        self._gdb = gdb
        self._environment = environment
        self._notice = notice
        self._made: dict[object, asyncio.Task[Nursery | None]] = {}
        self.has_fallen_back = False
        """Whether the user has been notified of a failed nursery."""

    async def find(self, files: RankFiles, pid: int) -> Nursery | None:
        """Return the nursery for a rank of process *pid* with these files, None if there is none.

        The first rank with these files starts it; GDB must be able to attach to that rank.
        """
        if not files.are_shared:
            return None
        if files.key not in self._made:
            self._made[files.key] = asyncio.create_task(self._make(files, pid))
        return await asyncio.shield(self._made[files.key])

    async def find_for_core(self, program: CoreProgram) -> Nursery | None:
        """Return the nursery for the cores of a program, None if there is none."""
        key = program.key
        if key not in self._made:
            self._made[key] = asyncio.create_task(self._make_for_core(program))
        return await asyncio.shield(self._made[key])

    async def _make_for_core(self, program: CoreProgram) -> Nursery | None:
        try:
            return await Nursery.begin_for_core(program, self._gdb, self._environment)
        except DebugsGpusError as error:
            LOG.info("%s: no nursery: %s", program.executable, error)
        except GdbError as error:
            self.fell_back(error)
        return None

    def fell_back(self, why: object) -> None:
        """Notify the user that a rank got a GDB of its own because its nursery failed."""
        self.has_fallen_back = True
        LOG.warning("no GDB from the nursery: %s", why)
        self._notice(f"GDBs start without the nursery, which takes longer: {why}")

    async def close(self) -> None:
        """End all nurseries."""
        for task in self._made.values():
            with contextlib.suppress(asyncio.CancelledError):
                if not task.done():
                    task.cancel()
                nursery = await task
                if nursery is not None:
                    await nursery.close()

    async def _make(self, files: RankFiles, pid: int) -> Nursery | None:
        nursery = None
        try:
            if self._symbol_prefetch is not None:
                nursery = await self._symbol_prefetch.take(self._gdb, files)
                for text in self._symbol_prefetch.notices:
                    self._notice(text)
            if nursery is None:
                nursery = await Nursery.begin(
                    files, pid, self._gdb, self._environment, self._index_cache
                )
            await self._rehearse(nursery, pid)
        except asyncio.CancelledError:
            if nursery is not None:
                await nursery.close()
            raise
        except (OSError, DebugsGpusError) as error:
            # The attach that follows reports the reason of an OSError.
            LOG.info("process %d: no nursery: %s", pid, error)
            return None
        except GdbError as error:
            self.fell_back(error)
            return None
        return nursery

    async def _rehearse(self, nursery: Nursery, pid: int) -> None:
        if self._free is not None:
            await self._free(pid)
        status = procfs.read_stat(pid)
        if status is None or status.state == "T":
            return  # an attach and detach could resume a process that a signal has stopped
        try:
            await nursery.rehearse(pid)
        except GdbError as error:
            LOG.info("process %d: no rehearsal with it: %s", pid, error)
            if not nursery.is_alive:
                await wake(pid)
                raise


def _last_words(errors: str) -> str:
    """Return the last line of a GDB's standard error that says more than that code has failed."""
    lines = (line.strip() for line in reversed(errors.split("\n")))
    said = next((line for line in lines if line and not line.startswith(_NO_REASON)), "")
    return said[:_MOST_WORDS]
