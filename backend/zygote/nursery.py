"""GDBs that are forked from one that has read the symbols of the ranks' program and libraries.

Reading symbols is most of what attaching costs in time and memory, and all ranks of a host mostly
run the same program. So one GDB for each program, the nursery, reads them once, attached to
nothing, and is forked for each rank (:mod:`pgdb.backend.gdb.forking_in_gdb` does that inside of
it). Whatever goes wrong, a rank gets a GDB that is started for it alone, as without a nursery.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
    prefer_for_want_of_memory,
    why_ended,
)
from pgdb.backend.gdb.settings import settings
from pgdb.backend.sbd.mapped_objects import linked
from pgdb.backend.sbd.rank_files import RankFiles
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.patterns import pattern

if TYPE_CHECKING:
    from pgdb.backend.zygote.symbol_prefetch import SymbolPrefetch

LOG = logging.getLogger(__name__)

CONTROL_VARIABLE = "PGDB_NURSERY_CONTROL"
AFTER_ATTACH = "python forking_in_gdb.settle()"
"""GDB command by which a forked GDB that has attached goes on as any other."""

# What of a user's commands is about showing, stopping and running, and not about what is read.
_NOT_ABOUT_READING = pattern(
    r"\s*(?:set\s+(?:p|pr|pri|prin|print|pagination|confirm|width|height|verbose|logging|history|style"
    r"|listsize|max-value-size|language|input-radix|output-radix|radix|disassembly-flavor|breakpoint"
    r"|scheduler-locking|step-mode|unwindonsignal|unwind-on-terminating-exception|backtrace"
    r"|can-use-hw-watchpoints|stop-on-solib-events|follow-exec-mode|substitute-path|filename-display"
    r"|host-charset|target-charset|charset|trace-commands|var|variable|environment|args|cwd)\b"
    r"|set\s+\$|(?:handle|skip|directory|dir|alias|echo|show|unset|tty)\b|\#|\Z)"
)
_MAX_ANSWER_BYTES = 1 << 20
# A fork copies the table of all pages, and the end of a process takes it apart: half as long with
# large ones (glibc 2.35; the kernel has them where a program asks for them, as a rule).
_LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=33554432"}
_NAMES_AT_ONCE = 100
STALL_S = 20.0
"""A GDB that has not computed for so long will not read the symbols any longer."""
_FORK_TIMEOUT_S = 20.0
_END_TIMEOUT_S = 5.0
_LAST_WORDS_S = 1.0
"""How long a process that has closed its socket may take to end."""


def why_not(commands: Sequence[str]) -> str:
    """Return why GDBs that are told the user's *commands* cannot be forked, empty if they can.

    A child reads nothing again, so what the user wants to be had with a program or library, or
    where it is to be looked for, would not be. What is not known to be about other things may be
    about that: a file of commands, a script.
    """
    about = next((each for each in commands if not _NOT_ABOUT_READING.match(each)), "")
    return f"'{about.strip()}' may be for GDBs that read libraries themselves" if about else ""


class Nursery:
    """One GDB that has read the symbols of one program, and those forked from it."""

    def __init__(self, files: RankFiles) -> None:
        self.files = files
        """Of the ranks that it is for."""
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        self._stderr = StandardError()
        self._last_errors = ""
        self._lock = asyncio.Lock()
        self._has_answered = False
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._children: dict[int, ForkedGdb] = {}
        self._codes: dict[int, int] = {}  # of children that have ended before we knew them

    @classmethod
    async def begin(
        cls,
        files: RankFiles,
        pid: int,
        gdb: str,
        environment: Mapping[str, str],
        index_cache: IndexCache,
    ) -> Nursery:
        """Start one for these files, of which process *pid* tells what the program is linked with.

        :raises GdbError: if it cannot be had.
        :raises OSError: if the process cannot be looked at.
        """
        nursery = cls(files)
        await nursery.start(gdb, environment)
        await nursery.read(pid, index_cache)
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
            # It may run already; at the end of its control socket it ends.
            self._shut()
            self._stderr.close()
            raise
        finally:
            theirs.close()
        prefer_for_want_of_memory(self.pid)
        asyncio.get_running_loop().add_reader(ours, self._receive)

    async def read(self, pid: int, index_cache: IndexCache) -> None:
        """Have the GDB read all symbols; process *pid* tells what the program is linked with.

        :raises GdbError: if it cannot; it has ended then.
        :raises OSError: if the process cannot be looked at; likewise.
        """
        try:
            names = await asyncio.to_thread(linked, pid)
            has_cache = await index_cache.is_sound_for(pid)
            reading = asyncio.create_task(self._read(names, index_cache=has_cache))
            try:
                await self._while_it_works(reading)
            finally:
                reading.cancel()
        except BaseException:
            await self.close()
            raise

    async def _read(self, names: Sequence[str], *, index_cache: bool) -> None:
        commands = [
            {"command": each.command, "must": each.must}
            for each in settings(index_cache=index_cache)
        ]
        await self._ask({"settings": commands})
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

    async def _while_it_works(self, reading: asyncio.Task[None]) -> None:
        """Wait for a task as long as the GDB computes: for a large program it does for minutes.

        Ranks that read the same by themselves would be slower still.
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
        """Whether it can be asked for GDBs."""
        return self._control is not None

    @property
    def pid(self) -> int:
        """Process id of the GDB that has read the symbols, 0 before it is started."""
        return self._process.pid if self._process is not None else 0

    async def fork(self, on_line: OnLine, on_end: OnEnd) -> ForkedGdb:
        """Return a new GDB, to which nothing has been said yet.

        :raises GdbError: if there is none to be had.
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
                raise GdbError("a forked GDB cannot go on; the aggregator's log may say why")
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
        """Attach to a process of the program and let it go, so that children know how to.

        :raises GdbError: if that fails. One that has hung in it is ended.
        """
        rehearsing = asyncio.create_task(self._tell_to_rehearse(pid))
        try:
            await self._while_it_works(rehearsing)
        except BaseException:
            if not rehearsing.done():
                rehearsing.cancel()
                await self.close()
            raise

    async def _tell_to_rehearse(self, pid: int) -> None:
        await self._ask({"rehearse": pid})

    async def close(self) -> None:
        """End it; GDBs that were forked from it are not concerned."""
        self._shut()
        self._hear_errors()
        if self._process is not None:
            # It reads until its control socket is closed; in the middle of symbols, it does not.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_TIMEOUT_S):
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
                # One request is under way at a time, so that there is room for it.
                socket.send_fds(self._control, [data], [] if descriptor is None else [descriptor])
            except OSError as error:
                raise GdbError(f"the nursery cannot be asked: {error.strerror}") from None
            try:
                answer = await self._answers.get()
            except asyncio.CancelledError:
                # Its answer would be taken for the next request's.
                self._shut()
                raise
        if "error" in answer:
            raise GdbError(str(answer["error"]))
        if "gone" in answer:
            raise GdbError(await self._how_ended())
        return answer

    async def _how_ended(self) -> str:
        """Return in words how the GDB has ended, whose control socket is closed."""
        code = None
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS_S):
                    code = await self._process.wait()
        self._hear_errors()
        why = f"the nursery {how_ended(code)}{why_ended(code, self._last_errors)}"
        if code == 0 and not self._has_answered:
            return f"{why}, as a GDB without Python does"
        return why

    def _hear_errors(self) -> None:
        """Take what it, and those forked from it, have written to standard error."""
        if words := self._stderr.close():
            self._last_errors = words
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

    *free* is awaited before a process is attached to; it lets go of one that we hold still.
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
        """Whether the user has been told that there is none."""

    async def find(self, files: RankFiles, pid: int) -> Nursery | None:
        """Return the nursery for a rank of process *pid* with these files, None if there is none.

        It is made for the first rank that comes, which must be free to be attached to.
        """
        if not files.are_shared:
            return None
        if files.key not in self._made:
            self._made[files.key] = asyncio.create_task(self._make(files, pid))
        return await asyncio.shield(self._made[files.key])

    def fell_back(self, why: object) -> None:
        """Take that a rank got a GDB of its own where a nursery should have given one."""
        self.has_fallen_back = True
        LOG.warning("no GDB from the nursery: %s", why)
        self._notice(f"GDBs start without the nursery, which takes longer: {why}")

    async def close(self) -> None:
        """End all of them."""
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
        except OSError as error:
            # Whoever attaches to it says what is wrong with it.
            LOG.info("process %d: no nursery for it: %s", pid, error)
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
            return  # what a signal has stopped, a debugger that comes and goes could set running
        try:
            await nursery.rehearse(pid)
        except GdbError as error:
            LOG.info("process %d: nothing was rehearsed with it: %s", pid, error)
            if not nursery.is_alive:
                await wake(pid)
                raise
