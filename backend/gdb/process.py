"""One GDB process: its input and output lines, and its end.

We end GDB by closing its input, never by a signal: at the end of its input GDB removes its
breakpoints and detaches, while SIGTERM and SIGKILL leave breakpoint instructions in a rank that
runs (measured with GDB 13.1). A forked GDB has a socket for its input and output, so that the end
of the aggregator ends its input too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from pgdb.backend.gdb.input_watch import has_read_all
from pgdb.backend.gdb.mi_lines import Lines, Pieces
from pgdb.errors import GdbError
from pgdb.jobs.file_limit import give_first_file_limit
from pgdb.patterns import pattern

LOG = logging.getLogger(__name__)

_LAST_WORDS_S = 0.5
"""Time to read on after the end of the process, in seconds."""
_LAST_BYTES = 2048
"""Size of the kept end of GDB's errors and log, in bytes."""
_MOST_WORDS = 200
_OF_MEMORY = pattern(r"memory exhausted|annot allocate memory|bad_alloc|MemoryError")
_PHRASE = pattern(r"[^\n]*(?:loading shared libraries|internal-error:)[^\n]*")
_FOR_WANT_OF_MEMORY = (-signal.SIGKILL, -signal.SIGABRT)
_CODE = str(Path(__file__).parent)
_CODE_VARIABLE = "PGDB_GDB_CODE"
_IN_EVERY_GDB = (
    *("buffering_in_gdb", "command_text_in_gdb", "elements_in_gdb", "fortran_arrays_in_gdb"),
    *("fortran_elements_in_gdb", "fortran_objects_in_gdb", "fortran_parts_in_gdb"),
    "library_printers_in_gdb",
    *("python_hits_in_gdb", "references_in_gdb", "single_steps_in_gdb"),
)
_FOR_CALLS = (
    *("barriers_in_gdb", "breakpoints_in_gdb", "cpp_parts_in_gdb", "ending_in_gdb"),
    *("explore_in_gdb", "expression_check_in_gdb", "guard_in_gdb"),
    *("numbers_in_gdb", "progress_in_gdb", "python_frames_in_gdb", "returned_in_gdb"),
    *("scopes_in_gdb", "stack_ends_in_gdb", "tracing_in_gdb", "variables_in_gdb"),
)
"""Modules of every GDB whose functions only commands call; they have no ``main``."""

_FIRST_TO_END = "1000"
"""Largest value of /proc/PID/oom_score_adj (proc(5))."""

END_WHEN_FREE = "python ending_in_gdb.end_when_free()"
"""GDB command that makes a GDB with Python exit after it has detached from its last process."""
GUARD = "python guard_in_gdb.watch()"
"""GDB command that makes a GDB with Python refuse commands that take its rank away."""
ALLOW = 'python guard_in_gdb.allow("{}")'
"""GDB command that lets one command of PGDB's pass the guard."""
AFTER_ATTACH = "python forking_in_gdb.settle()"
"""GDB command that a forked GDB needs after its attach, before it works as any other."""

OnLine = Callable[[bytes | Pieces], None]
OnEnd = Callable[[str], None]


class StandardError:
    """The standard error of a GDB; its last lines may explain the end of the GDB.

    It is a file in memory. A pipe would have to be read, and would break for the GDBs forked from
    this one when we end.
    """

    def __init__(self) -> None:
        self.file: int | None = None
        """Descriptor for GDB's standard error; None without memfd, which leaves GDB ours."""
        with contextlib.suppress(OSError):
            self.file = os.memfd_create("standard error of GDB")

    def close(self) -> str:
        """Close the file and return the end of its text."""
        file, self.file = self.file, None
        if file is None:
            return ""
        try:
            size_bytes = os.fstat(file).st_size
            data = os.pread(file, _LAST_BYTES, max(0, size_bytes - _LAST_BYTES))
        finally:
            os.close(file)
        # GDB 13.1 prints only NUL bytes when Python cannot start for lack of memory.
        return data.decode("utf-8", "replace").replace("\0", "")


class GdbProcess(ABC):
    """A GDB that speaks MI on its standard input and output."""

    def __init__(self, on_line: OnLine, on_end: OnEnd) -> None:
        self._on_line = on_line
        self._on_end = on_end
        self._lines = Lines()
        self._ended = asyncio.Event()
        self._code: int | None = None
        self._was_killed = False
        self._last_errors = ""
        self._log = ""
        self._late: asyncio.TimerHandle | None = None
        self._is_finished = False
        self.when_silent: Callable[[], None] = lambda: None
        """Called when GDB's output has ended. In a GDB that is killed the kernel closes its files
        before it resumes its rank."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Process id of the GDB."""

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return not self._ended.is_set()

    @property
    def how(self) -> str:
        """The end of the process, in words."""
        why = "" if self._was_killed else why_ended(self._code, self._last_errors, self._log)
        return f"GDB {how_ended(self._code)}{why}"

    def said(self, log: str) -> None:
        """Record GDB's log output: it may be the last."""
        self._log = (self._log + log)[-_LAST_BYTES:]

    @abstractmethod
    def write(self, line: str) -> None:
        """Queue one line for GDB; a GDB that has ended is reported through *on_end*."""

    @property
    @abstractmethod
    def has_read_all(self) -> bool:
        """Whether GDB has read all that was written."""

    @abstractmethod
    def close_input(self) -> None:
        """Make GDB remove its breakpoints, detach and end."""

    @abstractmethod
    def kill(self) -> None:
        """End GDB by SIGKILL; for a GDB whose rank has ended."""

    def wake(self) -> None:
        """Resume GDB if a signal has stopped it."""
        if self.is_alive and self.pid:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGCONT)

    def interrupt(self) -> None:
        """Interrupt GDB as Ctrl-C does."""
        if self.is_alive and self.pid:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGINT)

    async def wait_ended(self) -> None:
        """Wait until the process has ended."""
        await self._ended.wait()

    def _read(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._on_line(line)

    def _end(self, code: int | None) -> None:
        """Record the end of the process, with its return code as of a subprocess, if known."""
        self._code = code
        self._ended.set()
        # GDB's last output is still in flight; a child of GDB's can keep the pipe open.
        loop = asyncio.get_running_loop()
        self._late = loop.call_later(_LAST_WORDS_S, self._finish)

    def _finish(self) -> None:
        if self._late is not None:
            self._late.cancel()
        if self._is_finished or not self._ended.is_set():
            return
        self._is_finished = True
        self._on_end(self.how)
        self._close()

    @abstractmethod
    def _close(self) -> None:
        """Close all remaining files."""


Start = Callable[[OnLine, OnEnd], Awaitable[GdbProcess]]
"""Function that starts a GDB; its second argument is called once, with how GDB ended in words.

It raises :class:`~pgdb.errors.GdbError` if GDB cannot be started.
"""


class StartedGdb(GdbProcess, asyncio.SubprocessProtocol):
    """A GDB that was started for its rank alone."""

    def __init__(self, on_line: OnLine, on_end: OnEnd) -> None:
        super().__init__(on_line, on_end)
        self._transport: asyncio.SubprocessTransport | None = None
        self._stderr = StandardError()

    @classmethod
    async def start(
        cls, argv: Sequence[str], environment: Mapping[str, str], on_line: OnLine, on_end: OnEnd
    ) -> StartedGdb:
        """Start a GDB; *on_end* is called once, with how GDB ended in words.

        :raises GdbError: if it cannot be started.
        """
        loop = asyncio.get_running_loop()
        process = cls(on_line, on_end)
        undo = contextlib.ExitStack()
        undo.callback(process._stderr.close)
        try:
            await loop.subprocess_exec(
                lambda: process,
                *argv,
                env=dict(environment),
                # Keys typed at the terminal of the aggregator's launcher must not reach GDB.
                start_new_session=True,
                stderr=process._stderr.file,
            )
            undo.pop_all()
        except OSError as error:
            raise GdbError(f"cannot start {argv[0]}: {error.strerror or error}") from None
        finally:
            undo.close()
        set_limits(process.pid)
        return process

    @property
    def pid(self) -> int:
        """Process id of the GDB."""
        return self._transport.get_pid() if self._transport is not None else 0

    def write(self, line: str) -> None:
        """Queue one line for GDB; a GDB that has ended is reported through *on_end*."""
        assert self._transport is not None
        stdin = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
        if stdin is not None and not stdin.is_closing():
            stdin.write(line.encode() + b"\n")

    @property
    def has_read_all(self) -> bool:
        """Whether GDB has read all that was written."""
        assert self._transport is not None
        return has_read_all(self._transport.get_pipe_transport(0), "pipe")

    def close_input(self) -> None:
        """Make GDB remove its breakpoints, detach and end."""
        if self._transport is not None:
            stdin = self._transport.get_pipe_transport(0)
            if stdin is not None:
                stdin.close()

    def kill(self) -> None:
        """End GDB by SIGKILL; for a GDB whose rank has ended."""
        if self._transport is not None and self.is_alive:
            self._was_killed = True
            self._transport.kill()

    def _close(self) -> None:
        self._stderr.close()
        if self._transport is not None:
            self._transport.close()

    # asyncio.SubprocessProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the new process (asyncio calls this)."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Split GDB's output into lines (asyncio calls this)."""
        self._read(data)

    def process_exited(self) -> None:
        """Record the end of the process (asyncio calls this)."""
        assert self._transport is not None
        self._last_errors = self._stderr.close()
        if self._last_errors:
            LOG.warning("GDB %d: %s", self.pid, self._last_errors.strip())
        self._end(self._transport.get_returncode() or 0)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Finish after the end of GDB's output, if the process has ended (asyncio calls this)."""
        if fd == 1:
            self.when_silent()
            if self._ended.is_set():
                self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish after the end of the process and of all pipes (asyncio calls this)."""
        self._finish()


class ForkedGdb(GdbProcess, asyncio.Protocol):
    """A GDB that was forked from another, at the other end of a socket.

    It is not our child: its parent reports how it ended (:meth:`exited`), or its socket and the
    kernel report that it has.
    """

    def __init__(self, pid: int, on_line: OnLine, on_end: OnEnd) -> None:
        super().__init__(on_line, on_end)
        self._pid = pid
        self._transport: asyncio.Transport | None = None
        self._process: int | None = None
        self.ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Whether the GDB has printed anything; resolved by its first output or its end."""

    @classmethod
    async def take(
        cls, connection: socket.socket, pid: int, on_line: OnLine, on_end: OnEnd
    ) -> ForkedGdb:
        """Connect to process *pid* over *connection*."""
        loop = asyncio.get_running_loop()
        _, process = await loop.create_connection(
            lambda: cls(pid, on_line, on_end), sock=connection
        )
        try:
            process._process = os.pidfd_open(pid)
        except OSError:  # it has ended, or Linux is older than 5.3
            pass
        else:
            loop.add_reader(process._process, process._gone)
        return process

    @property
    def pid(self) -> int:
        """Process id of the GDB."""
        return self._pid

    def write(self, line: str) -> None:
        """Queue one line for GDB; a GDB that has ended is reported through *on_end*."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(line.encode() + b"\n")

    @property
    def has_read_all(self) -> bool:
        """Whether GDB has read all that was written."""
        return has_read_all(self._transport, "socket")

    def close_input(self) -> None:
        """Make GDB remove its breakpoints, detach and end."""
        if self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(OSError):
                self._transport.write_eof()

    def kill(self) -> None:
        """End GDB by SIGKILL; for a GDB whose rank has ended."""
        # By its descriptor if possible: the number could belong to another process by now.
        if self.is_alive:
            self._was_killed = True
            with contextlib.suppress(ProcessLookupError):
                if self._process is not None:
                    signal.pidfd_send_signal(self._process, signal.SIGKILL)
                else:
                    os.kill(self._pid, signal.SIGKILL)

    def _finish(self) -> None:
        if not self._ended.is_set():
            return
        if not self.ready.done():
            self.ready.set_result(False)
        if self.ready.result():
            super()._finish()
        else:
            # No caller has the GDB yet; the nursery that forked it reports the failure.
            self.abandon()

    def exited(self, code: int | None) -> None:
        """Record how the GDB ended: a subprocess's return code, None if unknown."""
        self._forget_process()
        if not self._ended.is_set():
            self._end(code)
            if self._transport is None or self._transport.is_closing():
                self._finish()

    def abandon(self) -> None:
        """End the GDB without a report: it has received no command."""
        self._is_finished = True
        self.kill()
        self._close()

    def _gone(self) -> None:
        """Record the end of the process; its parent may report the return code soon."""
        self._forget_process()
        asyncio.get_running_loop().call_later(_LAST_WORDS_S, self.exited, None)

    def _forget_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            asyncio.get_running_loop().remove_reader(process)
            os.close(process)

    def _close(self) -> None:
        self._forget_process()
        if self._transport is not None:
            self._transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the connection (asyncio calls this)."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Split GDB's output into lines (asyncio calls this)."""
        if not self.ready.done():
            self.ready.set_result(True)
        self._read(data)

    def eof_received(self) -> bool:
        """Close the connection after GDB has closed its end (asyncio calls this)."""
        self.when_silent()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish after the end of the connection, at the latest at the process's end (asyncio calls
        this)."""
        self.when_silent()
        if not self.ready.done():
            self.ready.set_result(False)
        if self._ended.is_set():
            self._finish()
        elif self._process is None:
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, self.exited, None)


def how_ended(code: int | None) -> str:
    """Return in words the meaning of a subprocess's return code, None if unknown."""
    if code is None:
        return "has ended"
    return f"was ended by signal {-code}" if code < 0 else f"ended ({code})"


def why_ended(code: int | None, errors: str, log: str = "") -> str:
    """Return the reason to print after :func:`how_ended` for a GDB that we have not ended
    ourselves.

    *errors* is the end of its standard error, *log* the end of its other output, which explains
    the end only if it contains a known phrase.
    """
    if code == 0:
        return ""
    words = f"{errors}\n{log}"
    is_of_memory = _OF_MEMORY.search(words) is not None
    phrase = _PHRASE.search(words)
    if code in _FOR_WANT_OF_MEMORY and (is_of_memory or phrase is None):
        # Equal for all ranks: some GDBs end before they can print it.
        return ", which can be for want of memory"
    if is_of_memory:
        return ", for want of memory"
    last = phrase[0] if phrase is not None else errors.strip().rpartition("\n")[2]
    return f": {_cut(last)}" if last else ""


def _cut(words: str) -> str:
    words = words.strip()
    return words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]}…"


def set_limits(pid: int) -> None:
    """Make the kernel end a GDB rather than a rank when the host has no memory left, and give the
    GDB the user's limit of open files.

    GDBs forked from it inherit both.
    """
    give_first_file_limit(pid)
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(_FIRST_TO_END)


def command_line(gdb: str, *modules: str) -> list[str]:
    """Return the command line of a GDB that speaks MI and runs ``main`` of our modules first.

    These are the modules of every GDB, and *modules*; all are in this directory, see
    :func:`environment_with_code`. A GDB without Python only reports that it has none. GDB skips its
    own and the user's start files.
    """
    modules = (*_IN_EVERY_GDB, *modules)
    code = (
        f'import os, sys; sys.path.insert(0, os.environ.pop("{_CODE_VARIABLE}")); '
        f"import {', '.join((*_FOR_CALLS, *modules))}; del sys.path[0]; "
        f"{'; '.join(f'{module}.main()' for module in modules)}"
    )
    # After an internal error GDB raises the limit for core files, and dumps core.
    settings = "maint set internal-error corefile no"
    return [gdb, "-nx", "-q", "-i=mi3", "-iex", settings, "-iex", f"python {code}"]


def environment_with_code(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which :func:`command_line` finds its modules."""
    return {**environment, _CODE_VARIABLE: _CODE}


def start_with(gdb: str, environment: Mapping[str, str]) -> Start:
    """Return a function that starts a GDB of its own.

    GDB writes quoted texts letter by letter, which costs GDB and us as much time as the rest of
    attaching (21,000 writes for a job with 70 libraries); so its output is made line-buffered.
    """
    argv = command_line(gdb)
    inherited = environment_with_code(environment)

    def start(on_line: OnLine, on_end: OnEnd) -> Awaitable[GdbProcess]:
        return StartedGdb.start(argv, inherited, on_line, on_end)

    return start
