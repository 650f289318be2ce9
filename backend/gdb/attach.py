"""Taking hold of one rank: attaching to a process that runs, or leading a held one to its main."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from pgdb.backend.care.liveness import watch_end
from pgdb.backend.care.pausing import Pauser
from pgdb.backend.gdb.exec_follow import Following, interpreted_script
from pgdb.backend.gdb.mi import Result, console, quote
from pgdb.backend.sbd import rank_files
from pgdb.backend.sbd.mapped_objects import entry_point
from pgdb.backend.sbd.rank_files import RankFiles, RankGdb
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.nursery import AFTER_ATTACH
from pgdb.errors import GdbError
from pgdb.jobs import hold, procfs
from pgdb.patterns import pattern
from pgdb.records import Event, Failure, Progress

_ENTRY_POINT = pattern(r"Entry point: (0x[0-9a-f]+)")
# How long GDB has to tell the end of a process that has ended as it attached.
_LAST_WORDS_S = 1.0
_NOWHERE = "/proc/self/none"
# gfortran's "main" only calls the user's program, MAIN__, which GDB's start stops in. Python's
# interpreter has no more than Py_BytesMain, which its main calls, where that is not exported.
_MAINS = ("MAIN__", "main", "Py_BytesMain")

Localise = Callable[[RankFiles, int], Awaitable[RankFiles]]
"""Has the files of a process brought to this host, and returns where they are then."""


async def as_they_are(files: RankFiles, pid: int) -> RankFiles:
    """Leave the files of a process where they are."""
    del pid
    return files


class Acquired(msgspec.Struct, frozen=True):
    """A rank that is stopped under its GDB, or that has ended on the way there."""

    pid: int
    reason: Literal["attached", "main", "entry"]
    payload: dict[str, Any]
    """GDB's payload of the stop."""
    program: str = ""
    """An interpreter and its script, such as ``python3.11 running job.py``."""
    was_stopped: bool = False
    """Whether a signal had stopped it before."""
    mapped: tuple[rank_files.MappedFile, ...] = ()
    """Its executable mappings shortly before it was stopped; empty if they were not looked at."""
    notes: tuple[str, ...] = ()
    """What is unusual about the rank and the user should know."""


class Attacher:
    """Takes hold of one rank with one GDB, which has seen no other process."""

    def __init__(
        self,
        gdb: RankGdb,
        *,
        expect_stop: Callable[[], asyncio.Future[dict[str, Any]]],
        run: Callable[[str], Awaitable[dict[str, Any]]],
        notify: Callable[[Event], None],
        program: str,
        localise: Localise,
        gdb_factory: GdbFactory,
        pauser: Pauser,
    ) -> None:
        self._gdb = gdb
        self._gdb_factory = gdb_factory
        self._pauser = pauser
        self._localise = localise
        self._expect_stop = expect_stop
        self._run = run
        self._notify = notify
        self._program = program

    async def attach(self, pid: int) -> Acquired | Failure:
        """Attach to the process *pid*, which is left stopped.

        :raises GdbError: if GDB ends.
        """
        if why := procfs.why_not_traceable(pid):
            return _refused(pid, why)
        status = procfs.read_stat(pid)
        was_stopped = status is not None and status.state == "T"
        try:
            files = await self._localise(rank_files.look_at(pid), pid)
            is_forked = await self._gdb_factory.start_for(self._gdb, files, pid)
            self._notify(Progress(stage="gdb"))
            await self._name_files(files, are_read=is_forked)
            if was_stopped:
                # What attaching leaves behind in each of its threads is a SIGSTOP, at which
                # GDB 13.1 stops on continue, and which it then passes on, so that with several
                # threads there is no end of it. The kernel knows by itself that the process
                # was stopped, and stops it again when GDB lets it go.
                await self._gdb.send(console("handle SIGSTOP nostop noprint nopass"))
            await self._pauser.release(pid)
            payload = await self._attach(pid)
            if is_forked:
                self._gdb.put_off(console(AFTER_ATTACH))
            if isinstance(payload, Failure):
                return payload
            if rank_files.identity_of(pid) != files.identity:
                # It has executed another program meanwhile.
                files = await self._localise(rank_files.look_at(pid), pid)
                await self._name_files(files)
                # The one that GDB has read has the same name, perhaps.
                await self._gdb.send(
                    f"-file-exec-and-symbols {quote(files.executable or files.name)}"
                )
        except OSError as error:
            why = procfs.why_not_traceable(pid)
            if not why and procfs.executable(pid) is None:
                why = f"process {pid} has ended"  # or is about to: its memory is gone
            return _refused(pid, why or str(error.strerror))
        notes = []
        if was_stopped:
            notes.append("was stopped by a signal before, and will be again when it is let go")
        if files.replaced:
            notes.append(_about_replaced(files.replaced))
        acquired = self._acquired(pid, "attached", payload, notes)
        return replace(acquired, was_stopped=was_stopped, mapped=files.mapped)

    async def acquire_held(self, pid: int, *, runs_on: bool = True) -> Acquired | Failure:
        """Attach to a held rank, let it execute its program and stop that in ``main``.

        One that *runs_on* runs on without a debugger if it cannot be attached to; else it is held
        still, and another try may succeed. One that has begun meanwhile, since nobody holds a rank
        for ever, is attached to where it is.

        :raises GdbError: if GDB ends, or refuses.
        """
        await self._gdb_factory.start(self._gdb)
        self._notify(Progress(stage="gdb"))
        # Symbols of the interpreter that runs the hold program are of no interest.
        await self._must("-gdb-set auto-solib-add off")
        if self._brings_files:
            # GDB finds no file before they have been brought.
            await self._must(f"-gdb-set sysroot {_NOWHERE}")
        payload = await self._attach(pid)
        if isinstance(payload, Failure):
            if runs_on:
                _release(pid)  # it must not wait for its deadline
            return payload
        status = procfs.read_stat(pid)
        if status is not None and status.comm not in (hold.HELD_NAME, hold.LEAVING_NAME):
            await self._must("-gdb-set auto-solib-add on")
            if self._brings_files:
                await self._bring_files(pid)
            await self._gdb.send(console("sharedlibrary"))
            return self._acquired(pid, "attached", payload)
        await self._must(console("catch exec"))
        _release(pid)
        following = Following(self._gdb, self._run, self._program)
        payload, pid = await following.to_program(pid)
        if payload.get("reason") != "exec":
            return Acquired(pid, "main", payload)
        await self._must(console("delete"))
        if self._brings_files:
            payload = await self._to_entry(pid, payload)
            if payload.get("reason") not in ("breakpoint-hit", "exec"):
                return Acquired(pid, "main", payload)
        await self._must("-gdb-set auto-solib-add on")
        await self._gdb_factory.executed(self._gdb, pid)
        if self._brings_files:
            await self._bring_files(pid)
            return await self._run_to_main(pid, payload)
        with contextlib.suppress(OSError):
            if rank_files.root_of(pid):
                await self._name_files(rank_files.look_at(pid))
        return await self._run_to_main(pid, payload)

    @property
    def _brings_files(self) -> bool:
        return self._localise is not as_they_are

    async def _to_entry(self, pid: int, payload: dict[str, Any]) -> dict[str, Any]:
        """Let a program that has just been executed come to where all its libraries are loaded."""
        try:
            entry = entry_point(pid)
        except OSError:
            return payload
        await self._must(f"-break-insert -t *{entry:#x}")
        return await self._run("-exec-continue")

    async def _bring_files(self, pid: int) -> None:
        """Have the files of a rank brought, and GDB read the symbols that it has not yet read."""
        files = RankFiles(root="", executable="", name="", identity=(0, 0), replaced=())
        with contextlib.suppress(OSError):
            files = rank_files.look_at(pid)
            files = await self._localise(files, pid)
        if not files.root:
            await self._must("-gdb-set sysroot target:")
        if not files.executable:
            files = replace(files, executable=f"/proc/{pid}/exe")
        await self._name_files(files)
        await self._gdb.send(console("sharedlibrary"))

    async def _name_files(self, files: RankFiles, *, are_read: bool = False) -> None:
        """Tell GDB where the files are that it does not find by itself."""
        self._gdb.rename(files.names)
        if are_read:
            return
        for name, value in files.settings:
            now = await self._gdb.send(f"-gdb-show {name}")
            # An empty name in a list of directories would be the working directory.
            value = value.replace("{}", str(now.payload.get("value", ""))).strip(":")
            await self._gdb.send(f"-gdb-set {name} {value}")
        if files.root:
            await self._must(f"-gdb-set sysroot {files.root}")
        if files.executable:
            # One without symbols, or that GDB cannot read, is no reason not to go on.
            await self._gdb.send(f"-file-exec-and-symbols {quote(files.executable)}")

    async def _attach(self, pid: int) -> dict[str, Any] | Failure:
        stopped = self._expect_stop()
        result = await self._gdb.send(f"-target-attach {pid}")
        if result.kind == "error":
            stopped.cancel()
            return _refused(pid, procfs.why_not_traceable(pid) or result.message.rstrip("."))
        async with _end_of(pid) as ended:
            await asyncio.wait((stopped, ended), return_when=asyncio.FIRST_COMPLETED)
            # GDB 13.1 says nothing of a process that is killed as it attaches.
            if not stopped.done():
                await asyncio.wait((stopped,), timeout=_LAST_WORDS_S)
        if not stopped.done():
            stopped.cancel()
            return _refused(pid, f"process {pid} has ended")
        self._notify(Progress(stage="attached"))
        return stopped.result()

    async def _run_to_main(self, pid: int, payload: dict[str, Any]) -> Acquired:
        for function in _MAINS:
            result = await self._gdb.send(f"-break-insert -t {function}")
            if result.kind == "done":
                return self._acquired(pid, "main", await self._run("-exec-continue"))
        files = await self._gdb.send(console("info files"))
        entry = _ENTRY_POINT.search(files.text)
        pc = await self._gdb.send("-data-evaluate-expression (long)$pc")
        if entry is not None and pc.payload.get("value") != str(int(entry[1], 16)):
            result = await self._gdb.send(f"-break-insert -t *{entry[1]}")
            if result.kind == "done":
                payload = await self._run("-exec-continue")
        return self._acquired(pid, "entry", payload)

    def _acquired(
        self,
        pid: int,
        reason: Literal["attached", "main", "entry"],
        payload: dict[str, Any],
        notes: Sequence[str] = (),
    ) -> Acquired:
        name = os.path.basename(procfs.executable(pid) or "")
        script = interpreted_script(pid)
        program = f"{name} running {os.path.basename(script)}" if script else ""
        return Acquired(pid, reason, payload, program, notes=tuple(notes))

    async def _must(self, command: str) -> Result:
        result = await self._gdb.send(command)
        if result.kind == "error":
            raise GdbError(result.message)
        return result


@contextlib.asynccontextmanager
async def _end_of(pid: int) -> AsyncIterator[asyncio.Future[None]]:
    """Give a future that is done when the process has ended."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    call_off = watch_end(pid, lambda: ended.set_result(None))
    try:
        yield ended
    finally:
        call_off()


def _release(pid: int) -> None:
    """Let a held rank go on, unless it does so by itself since the front end has died.

    The signal is sent to what may wait for it only, and does no harm where that is no longer so.
    """
    status = procfs.read_stat(pid)
    if status is not None and status.comm == hold.HELD_NAME:
        with contextlib.suppress(OSError):
            os.kill(pid, hold.RELEASE)


def _refused(pid: int, why: str) -> Failure:
    has_ended = why == f"process {pid} has ended"
    return Failure(message=why if has_ended else f"cannot attach to process {pid}: {why}")


def _about_replaced(paths: Sequence[str]) -> str:
    verb = "has" if len(paths) == 1 else "have"
    return (
        f"{', '.join(paths)} {verb} been deleted or replaced since the rank mapped the file; "
        "its sources may not be those of the running code"
    )
