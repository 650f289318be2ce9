"""Attaching to one rank: to a process that runs, or to a held one, which is led to its main."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from pgdb.backend.care.liveness import watch_end
from pgdb.backend.care.pausing import Pauser
from pgdb.backend.gdb import main_program
from pgdb.backend.gdb.exec_follow import Following
from pgdb.backend.gdb.mi import Result, console, quote
from pgdb.backend.gdb.own_breakpoints import OwnBreakpoints
from pgdb.backend.gdb.process import AFTER_ATTACH
from pgdb.backend.gdb.rank_gdb import RankGdb
from pgdb.backend.gdb.registers import address_in
from pgdb.backend.gdb.unstoppable import why_unstoppable
from pgdb.backend.gdb.valgrind import Guest, guest_of
from pgdb.backend.sbd import rank_files
from pgdb.backend.sbd.mapped_objects import entry_point
from pgdb.backend.sbd.rank_files import RankFiles
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.errors import GdbError
from pgdb.jobs import hold, procfs
from pgdb.jobs.tracing_rights import why_not_traceable
from pgdb.jobs.wrapped_program import Image
from pgdb.patterns import pattern
from pgdb.records import Event, Failure, Progress

_ENTRY_POINT = pattern(r"Entry point: (0x[0-9a-f]+)")
# Time in which GDB reports the end of a process that has ended while GDB attached to it.
_LAST_WORDS_S = 1.0
_NOWHERE = "/proc/self/none"
# gfortran's "main" only calls the user's program, MAIN__, in which GDB's "start" stops. Python's
# interpreter has only Py_BytesMain, which its main calls, where main is not exported.
_MAINS = ("MAIN__", "main", "Py_BytesMain")
_INITIALIZED = "Py_RunMain"
"""The function that Python's interpreter calls when it is initialized, before it runs a program."""

Localise = Callable[[RankFiles, int], Awaitable[RankFiles]]
"""Function that brings the files of a process to this host and returns their places."""


async def as_they_are(files: RankFiles, pid: int) -> RankFiles:
    """Leave the files of a process where they are."""
    del pid
    return files


UNDER_VALGRIND = "runs under valgrind, which interprets it: GDB has it through vgdb"
WAS_STOPPED = "was stopped by a signal before, and will be again when PGDB detaches"


class Acquired(msgspec.Struct, frozen=True):
    """A rank that is stopped under its GDB, or that has ended meanwhile."""

    pid: int
    reason: Literal["attached", "main", "entry"]
    payload: dict[str, Any]
    """GDB's payload of the stop."""
    program: str = ""
    """An interpreter and its script, such as ``python3.11 running job.py``."""
    was_stopped: bool = False
    """Whether a signal had stopped the rank before."""
    mapped: tuple[rank_files.MappedFile, ...] = ()
    """Executable mappings of the rank shortly before the stop; empty if nobody read them."""
    notes: tuple[str, ...] = ()
    """Unusual facts about the rank, for the user."""


class Attacher:
    """Driver that attaches one GDB, which has seen no other process, to one rank."""

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
        self._own = OwnBreakpoints(gdb)
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
        if why := why_not_traceable(pid):
            return _refused(pid, why)
        if why := await why_unstoppable(pid):
            return _refused(pid, why)
        status = procfs.read_stat(pid)
        was_stopped = status is not None and status.state == "T"
        unreached = ""
        if Image(pid).is_valgrind:
            guest = await asyncio.to_thread(guest_of, pid)
            if isinstance(guest, Guest):
                return await self._attach_to_guest(pid, guest)
            unreached = guest
        try:
            files = await self._localise(rank_files.look_at(pid), pid)
            is_forked = await self._gdb_factory.start_for(self._gdb, files, pid)
            self._notify(Progress(stage="gdb"))
            await self._name_files(files, are_read=is_forked)
            if was_stopped:
                # Attaching leaves a SIGSTOP behind in each thread. GDB 13.1 stops at it on continue
                # and passes it on, so that with several threads it never ends. The kernel knows by
                # itself that the process was stopped, and stops the process again when GDB
                # detaches.
                await self._gdb.send(console("handle SIGSTOP nostop noprint nopass"))
            await self._pauser.release(pid)
            payload = await self._attach(pid)
            if is_forked:
                self._gdb.put_off(console(AFTER_ATTACH))
            if isinstance(payload, Failure):
                return payload
            if not is_forked:
                main_program.find(self._gdb)
            if rank_files.identity_of(pid) != files.identity:
                # The process has executed another program meanwhile.
                files = await self._localise(rank_files.look_at(pid), pid)
                await self._name_files(files)
                # The program that GDB has read may have the same name.
                await self._gdb.send(
                    f"-file-exec-and-symbols {quote(files.executable or files.name)}"
                )
        except OSError as error:
            why = why_not_traceable(pid)
            if not why and isinstance(error, FileNotFoundError | ProcessLookupError):
                why = f"process {pid} has ended"  # or is about to: its memory is gone
            return _refused(pid, why or str(error.strerror))
        notes = []
        if was_stopped:
            notes.append(WAS_STOPPED)
        if files.replaced:
            notes.append(_about_replaced(files.replaced))
        if unreached:
            notes.append(unreached)
        acquired = self._acquired(pid, "attached", payload, notes)
        return replace(acquired, was_stopped=was_stopped, mapped=files.mapped)

    async def _attach_to_guest(self, pid: int, guest: Guest) -> Acquired | Failure:
        """Connect to the program that Valgrind interprets in the process *pid*."""
        await self._gdb_factory.start(self._gdb, pid)
        self._notify(Progress(stage="gdb"))
        self._gdb.is_remote = True
        if guest.program:
            await self._gdb.send(f"-file-exec-and-symbols {quote(guest.program)}")
        await self._pauser.release(pid)
        payload = await self._reach(pid, f"-target-select remote | {guest.command}")
        if isinstance(payload, Failure):
            return payload
        notes = [UNDER_VALGRIND]
        return self._acquired(pid, "attached", payload, notes)

    async def acquire_held(self, pid: int, *, runs_on: bool = True) -> Acquired | Failure:
        """Attach to a held rank, let it execute its program and stop that in ``main``.

        :param runs_on: the rank runs on without a debugger if GDB cannot attach; else it stays
            held, and another try may succeed. A rank that has begun meanwhile, since a hold has a
            time limit, is attached to where it is.
        :raises GdbError: if GDB ends, or refuses.
        """
        await self._gdb_factory.start(self._gdb)
        self._notify(Progress(stage="gdb"))
        # Nobody needs symbols of the interpreter that runs the hold program.
        await self._must("-gdb-set auto-solib-add off")
        if self._brings_files:
            # GDB must find no file before the files have been brought.
            await self._must(f"-gdb-set sysroot {_NOWHERE}")
            await self._gdb.send(f"-file-exec-file /proc/{pid}/exe")
        payload = await self._attach(pid)
        if isinstance(payload, Failure):
            if runs_on:
                hold.release(pid)  # it must not wait for its deadline
            return payload
        status = procfs.read_stat(pid)
        if status is not None and status.comm not in (hold.HELD_NAME, hold.LEAVING_NAME):
            return await self._begin_where_it_is(pid, payload)
        await self._own.stop_at_exec()
        hold.release(pid)
        following = Following(self._gdb, self._own, self._run, self._program)
        followed = await following.to_program(pid)
        pid, payload = followed.pid, followed.payload
        notes = (followed.note,) if followed.note else ()
        if followed.end == "untraceable":
            # GDB can neither go on nor detach; at its end the kernel lets the process run.
            self._gdb.kill()
            return _refused(pid, followed.note)
        if followed.end == "ended":
            return Acquired(pid, "main", payload)
        await self._own.pass_exec()
        if followed.end == "running":
            return await self._begin_where_it_is(pid, payload, notes)
        if self._brings_files and followed.end == "exec":
            payload = await self._to_entry(pid, payload)
            if payload.get("reason") not in ("breakpoint-hit", "exec"):
                return Acquired(pid, "main", payload)
        await self._must("-gdb-set auto-solib-add on")
        await self._gdb_factory.executed(self._gdb, pid)
        if self._brings_files:
            await self._bring_files(pid)
            return await self._run_to_main(pid, payload, notes)
        with contextlib.suppress(OSError):
            if rank_files.root_of(pid):
                await self._name_files(rank_files.look_at(pid))
        return await self._run_to_main(pid, payload, notes)

    async def _begin_where_it_is(
        self, pid: int, payload: dict[str, Any], notes: Sequence[str] = ()
    ) -> Acquired:
        """Read the symbols of a process that is past its ``main``."""
        await self._must("-gdb-set auto-solib-add on")
        if self._brings_files:
            await self._bring_files(pid)
        await self._gdb.send(console("sharedlibrary"))
        return self._acquired(pid, "attached", payload, notes)

    @property
    def _brings_files(self) -> bool:
        return self._localise is not as_they_are

    async def _to_entry(self, pid: int, payload: dict[str, Any]) -> dict[str, Any]:
        """Run a program that was just executed until all its libraries are loaded."""
        try:
            entry = entry_point(pid)
        except OSError:
            return payload
        if not await self._own.stop_once(f"*{entry:#x}"):
            return payload
        return await self._run("-exec-continue")

    async def _bring_files(self, pid: int) -> None:
        """Bring the files of a rank to this host, and make GDB read the symbols that it has not
        read yet."""
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
        """Send GDB the places of files that it does not find by itself."""
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
            # GDB can go on with a program without symbols, or one that it cannot read.
            await self._gdb.send(f"-file-exec-and-symbols {quote(files.executable)}")

    async def _attach(self, pid: int) -> dict[str, Any] | Failure:
        return await self._reach(pid, f"-target-attach {pid}")

    async def _reach(self, pid: int, command: str) -> dict[str, Any] | Failure:
        """Send the command that gives GDB the process *pid*; return the payload of the stop."""
        stopped = self._expect_stop()
        result = await self._gdb.send(command)
        if result.kind == "error":
            stopped.cancel()
            return _refused(pid, why_not_traceable(pid) or result.message.rstrip("."))
        async with _end_of(pid) as ended:
            await asyncio.wait((stopped, ended), return_when=asyncio.FIRST_COMPLETED)
            # GDB 13.1 reports nothing of a process that is killed while GDB attaches to it.
            if not stopped.done():
                await asyncio.wait((stopped,), timeout=_LAST_WORDS_S)
        if not stopped.done():
            stopped.cancel()
            return _refused(pid, f"process {pid} has ended")
        self._notify(Progress(stage="attached"))
        return stopped.result()

    async def _run_to_main(
        self, pid: int, payload: dict[str, Any], notes: Sequence[str]
    ) -> Acquired:
        for function in _MAINS:
            if await self._own.stop_once(function):
                payload = await self._run("-exec-continue")
                if payload.get("reason") == "breakpoint-hit":
                    payload = await self._initialize_python(pid, payload)
                return self._acquired(pid, "main", payload, notes)
        files = await self._gdb.send(console("info files"))
        entry = _ENTRY_POINT.search(files.text)
        pc = await self._gdb.send("-data-evaluate-expression $pc")
        if entry is not None and address_in(pc) != int(entry[1], 16):
            if await self._own.stop_once(f"*{entry[1]}"):
                payload = await self._run("-exec-continue")
        return self._acquired(pid, "entry", payload, notes)

    async def _initialize_python(self, pid: int, payload: dict[str, Any]) -> dict[str, Any]:
        """Run an interpreter of Python until it could execute the user's first line.

        Breakpoints at Python code need an interpreter that is initialized.
        """
        if not Image(pid).is_interpreter or not await self._own.stop_once(_INITIALIZED):
            return payload
        return await self._run("-exec-continue")

    def _acquired(
        self,
        pid: int,
        reason: Literal["attached", "main", "entry"],
        payload: dict[str, Any],
        notes: Sequence[str] = (),
    ) -> Acquired:
        image = Image(pid)
        program = image.title if image.script else ""
        return Acquired(pid, reason, payload, program, notes=tuple(notes))

    async def _must(self, command: str) -> Result:
        result = await self._gdb.send(command)
        if result.kind == "error":
            raise GdbError(result.message)
        return result


@contextlib.asynccontextmanager
async def _end_of(pid: int) -> AsyncIterator[asyncio.Future[None]]:
    """Provide a future that is done when the process has ended."""
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    call_off = watch_end(pid, lambda: ended.set_result(None))
    try:
        yield ended
    finally:
        call_off()


def _refused(pid: int, why: str) -> Failure:
    has_ended = why == f"process {pid} has ended"
    where = f"process {pid} on {os.uname().nodename}"
    return Failure(message=why if has_ended else f"cannot attach to {where}: {why}")


def _about_replaced(paths: Sequence[str]) -> str:
    verb = "has" if len(paths) == 1 else "have"
    return (
        f"{', '.join(paths)} {verb} been deleted or replaced since the rank mapped the file; "
        "its sources may not be those of the running code"
    )


def let_run_later(pid: int, acquired: Acquired | Failure) -> Acquired | Failure:
    """Undo the SIGSTOP of a GDB that was given up, once another has the process or cannot have it.

    Without SIGCONT the kernel would stop the process again when GDB detaches.
    """
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGCONT)
    if isinstance(acquired, Failure):
        return acquired
    notes = tuple(note for note in acquired.notes if note != WAS_STOPPED)
    return replace(acquired, was_stopped=False, notes=notes)
