"""Taking hold of one rank: attaching to a process that runs, or leading a held one to its main."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pgdb.backend import rankfiles
from pgdb.backend.following import Following, interpreted_script
from pgdb.backend.gdb.mi import Result, console, quote
from pgdb.backend.rankfiles import RankFiles, RankGdb
from pgdb.errors import GdbError
from pgdb.jobs import hold, procfs
from pgdb.records import Event, Failure, Progress

_ENTRY_POINT = re.compile(r"Entry point: (0x[0-9a-f]+)")
# How long GDB has to tell the end of a process that has ended as it attached.
_LAST_WORDS_S = 1.0
# gfortran's "main" only calls the user's program, MAIN__, which GDB's start stops in. Python's
# interpreter has no more than Py_BytesMain, which its main calls, where that is not exported.
_MAINS = ("MAIN__", "main", "Py_BytesMain")

INTERRUPT = signal.SIGURG
"""The signal that stops a rank. SIGINT, which -exec-interrupt sends, kills a rank to which it
is delivered after a detach; SIGURG does nothing by default."""
IGNORE_INTERRUPT = f"handle {INTERRUPT.name} nostop noprint nopass"
"""What every GDB is told of it, but while an interrupt is under way."""

# What every GDB is told before it sees the rank. Confirmations and pagination would wait for
# ever; worker threads compete for the cores of the job; debuginfod would ask the network.
_SETTINGS = (
    "-gdb-set mi-async on",
    "-gdb-set confirm off",
    "-gdb-set pagination off",
    "-gdb-set width 0",
    "-gdb-set height 0",
    "-gdb-set style enabled off",
    "-gdb-set history save off",
    "-gdb-set exec-file-mismatch off",
    "-gdb-set auto-load local-gdbinit off",
    console(IGNORE_INTERRUPT),
    # Launchers send it to all ranks of a job that they end; it is no news.
    console("handle SIGCONT nostop noprint pass"),
)
# Unknown to some GDBs; without them everything works, only slower.
_SETTINGS_IF_KNOWN = (
    "-gdb-set debuginfod enabled off",
    console("maint set worker-threads 0"),
    console("set index-cache enabled on"),
    # "x@entry=5" beside "x=5" makes frames of optimised libraries twice as long.
    "-gdb-set print entry-values no",
)


@dataclass(frozen=True, slots=True)
class Taken:
    """A rank that is stopped under its GDB, or that has ended on the way there."""

    pid: int
    reason: Literal["attached", "main", "entry"]
    payload: dict[str, Any]
    """GDB's payload of the stop."""
    program: str = ""
    """An interpreter and its script, such as ``python3.11 running job.py``."""
    notes: tuple[str, ...] = ()
    """What is unusual about the rank and the user should know."""


class Taking:
    """Takes hold of one rank with one GDB, which has seen no other process."""

    def __init__(
        self,
        gdb: RankGdb,
        *,
        await_stop: Callable[[], asyncio.Future[dict[str, Any]]],
        run: Callable[[str], Awaitable[dict[str, Any]]],
        tell: Callable[[Event], None],
        program: str,
    ) -> None:
        self._gdb = gdb
        self._await_stop = await_stop
        self._run = run
        self._tell = tell
        self._program = program

    async def start_gdb(
        self, argv: Sequence[str], environment: Mapping[str, str], commands: Sequence[str]
    ) -> None:
        """Start GDB and tell it how to behave; the user's *commands* come last.

        :raises GdbError: if it cannot be started, or refuses.
        """
        await self._gdb.start(argv, environment)
        optional = [self._gdb.send(command) for command in _SETTINGS_IF_KNOWN]
        needed = [self._gdb.send(command) for command in _SETTINGS]
        own = [self._gdb.send(console(command)) for command in commands]
        for future in optional:
            await future
        for command, result in zip(
            (*_SETTINGS, *commands), await asyncio.gather(*needed, *own), strict=True
        ):
            if result.kind == "error":
                raise GdbError(f"GDB refuses '{command}': {result.message}")

    async def attach(self, pid: int) -> Taken | Failure:
        """Attach to the process *pid*, which is left stopped.

        :raises GdbError: if GDB ends.
        """
        if why := procfs.why_not_traceable(pid):
            return _refused(pid, why)
        status = procfs.read_stat(pid)
        was_stopped = status is not None and status.state == "T"
        try:
            files = rankfiles.look_at(pid)
            await self._name_files(files)
            if was_stopped:
                # What attaching leaves behind in each of its threads is a SIGSTOP, at which GDB
                # 13.1 stops on continue, and which it then passes on, so that with several
                # threads there is no end of it. The kernel knows by itself that the process was
                # stopped, and stops it again when GDB lets it go.
                await self._gdb.send(console("handle SIGSTOP nostop noprint nopass"))
            payload = await self._attach(pid)
            if isinstance(payload, Failure):
                return payload
            if (now := rankfiles.look_at(pid)).identity != files.identity:
                # It has executed another program meanwhile.
                files = now
                await self._name_files(files)
        except OSError as error:
            return _refused(pid, procfs.why_not_traceable(pid) or str(error.strerror))
        notes = []
        if was_stopped:
            notes.append("was stopped by a signal before, and will be again when it is let go")
        if files.replaced:
            notes.append(_about_replaced(files.replaced))
        return self._taken(pid, "attached", payload, notes)

    async def take_held(self, pid: int) -> Taken | Failure:
        """Attach to a held rank, let it execute its program and stop that in ``main``.

        :raises GdbError: if GDB ends, or refuses.
        """
        # Symbols of the interpreter that runs the hold program are of no interest.
        await self._must("-gdb-set auto-solib-add off")
        payload = await self._attach(pid)
        if isinstance(payload, Failure):
            # It must not wait for its deadline: without a debugger it runs free at once.
            _release(pid)
            return payload
        await self._must(console("catch exec"))
        _release(pid)
        following = Following(self._gdb, self._run, self._program)
        payload, pid = await following.to_program(pid)
        if payload.get("reason") != "exec":
            return Taken(pid, "main", payload)
        await self._must(console("delete"))
        await self._must("-gdb-set auto-solib-add on")
        with contextlib.suppress(OSError):
            if rankfiles.root_of(pid):
                await self._name_files(rankfiles.look_at(pid))
        return await self._run_to_main(pid, payload)

    async def _name_files(self, files: RankFiles) -> None:
        """Tell GDB where the files are that it does not find by itself."""
        self._gdb.rename(files.names)
        if files.root:
            await self._must(f"-gdb-set sysroot {files.root}")
        if files.executable:
            # One without symbols, or that GDB cannot read, is no reason not to go on.
            await self._gdb.send(f"-file-exec-and-symbols {quote(files.executable)}")

    async def _attach(self, pid: int) -> dict[str, Any] | Failure:
        stopped = self._await_stop()
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
        self._tell(Progress(stage="attached"))
        return stopped.result()

    async def _run_to_main(self, pid: int, payload: dict[str, Any]) -> Taken:
        for function in _MAINS:
            result = await self._gdb.send(f"-break-insert -t {function}")
            if result.kind == "done":
                return self._taken(pid, "main", await self._run("-exec-continue"))
        files = await self._gdb.send(console("info files"))
        entry = _ENTRY_POINT.search(files.text)
        pc = await self._gdb.send("-data-evaluate-expression (long)$pc")
        if entry is not None and pc.payload.get("value") != str(int(entry[1], 16)):
            result = await self._gdb.send(f"-break-insert -t *{entry[1]}")
            if result.kind == "done":
                payload = await self._run("-exec-continue")
        return self._taken(pid, "entry", payload)

    def _taken(
        self,
        pid: int,
        reason: Literal["attached", "main", "entry"],
        payload: dict[str, Any],
        notes: Sequence[str] = (),
    ) -> Taken:
        name = os.path.basename(procfs.executable(pid) or "")
        script = interpreted_script(pid)
        program = f"{name} running {os.path.basename(script)}" if script else ""
        return Taken(pid, reason, payload, program, tuple(notes))

    async def _must(self, command: str) -> Result:
        result = await self._gdb.send(command)
        if result.kind == "error":
            raise GdbError(result.message)
        return result


@contextlib.asynccontextmanager
async def _end_of(pid: int) -> AsyncIterator[asyncio.Future[None]]:
    """Give a future that is done when the process has ended."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        ended.set_result(None)
        yield ended
        return
    except OSError:  # Linux before 5.3
        yield ended
        return

    def take() -> None:
        loop.remove_reader(process)
        ended.set_result(None)

    loop.add_reader(process, take)
    try:
        yield ended
    finally:
        loop.remove_reader(process)
        os.close(process)


def _release(pid: int) -> None:
    """Let a held rank go on, unless it does so by itself since the front end has died.

    The signal kills whatever does not wait for it. While GDB has stopped the process it stays what
    it is found to be.
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
