"""One GDB process: lines in, lines out, and how it ended.

GDB is ended by closing its input, never by a signal: at the end of its input it takes its
breakpoints out and detaches, while SIGTERM and SIGKILL leave breakpoint instructions in a rank
that runs (measured with GDB 13.1). A forked one has a socket for its input and output, so that
the end of the aggregator is the end of its input too.
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

from pgdb.backend.gdb.mi import Lines, Pieces
from pgdb.errors import GdbError
from pgdb.patterns import pattern

LOG = logging.getLogger(__name__)

_LAST_WORDS_S = 0.5
"""How long to read on after the end of the process."""
_LAST_BYTES = 2048
"""So much is kept of the last that it has said."""
_MOST_WORDS = 200
_OF_MEMORY = pattern(r"memory exhausted|annot allocate memory|bad_alloc|MemoryError")
_TELLING = pattern(r"[^\n]*(?:loading shared libraries|internal-error:)[^\n]*")
_FOR_WANT_OF_MEMORY = (-signal.SIGKILL, -signal.SIGABRT)
_CODE = str(Path(__file__).parent)
_CODE_VARIABLE = "PGDB_GDB_CODE"
_IN_EVERY_GDB = ("buffering_in_gdb", "ending_in_gdb")

_FIRST_TO_END = "1000"
"""The largest of what /proc/PID/oom_score_adj takes (proc(5))."""

END_WHEN_FREE = "python ending_in_gdb.end_when_free()"
"""GDB command after which a GDB that has Python ends once it has detached from its last process."""

OnLine = Callable[[bytes | Pieces], None]
OnEnd = Callable[[str], None]


class StandardError:
    """The standard error of a GDB: the end of it may tell why the GDB has ended.

    It lies in memory. A pipe would have to be read, and be broken for those forked from the GDB
    when we end.
    """

    def __init__(self) -> None:
        self.file: int | None = None
        """What to start the GDB with; None where there is no such thing, which leaves it ours."""
        with contextlib.suppress(OSError):
            self.file = os.memfd_create("standard error of GDB")

    def close(self) -> str:
        """Return the end of what was written, and close it."""
        file, self.file = self.file, None
        if file is None:
            return ""
        try:
            size_bytes = os.fstat(file).st_size
            data = os.pread(file, _LAST_BYTES, max(0, size_bytes - _LAST_BYTES))
        finally:
            os.close(file)
        # GDB 13.1 says no more than that when Python cannot be started for want of memory.
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
        """In words, how it has ended."""
        why = "" if self._was_killed else why_ended(self._code, self._last_errors, self._log)
        return f"GDB {how_ended(self._code)}{why}"

    def said(self, log: str) -> None:
        """Take what it says of itself: it may be its last."""
        self._log = (self._log + log)[-_LAST_BYTES:]

    @abstractmethod
    def write(self, line: str) -> None:
        """Queue one line for GDB; one that has ended says so through *on_end*."""

    @abstractmethod
    def close_input(self) -> None:
        """Let GDB take its breakpoints out, detach and end."""

    @abstractmethod
    def kill(self) -> None:
        """End GDB by SIGKILL; for one whose rank has ended."""

    def wake(self) -> None:
        """Let GDB go on if somebody has stopped it by a signal."""
        if self.is_alive and self.pid:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGCONT)

    def interrupt(self) -> None:
        """Have GDB do what it does at Ctrl-C."""
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
        """Take that the process has ended, with the code that a subprocess has, if it is known."""
        self._code = code
        self._ended.set()
        # What it has written is still on its way; a child of GDB's can keep the pipe open.
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
        """Close what is left open."""


Start = Callable[[OnLine, OnEnd], Awaitable[GdbProcess]]
"""Starts a GDB; the second function is told once, in words, how it ended.

It raises :class:`~pgdb.errors.GdbError` if there is none to be had.
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
        """Start a GDB; *on_end* is told once, in words, how it ended.

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
                # Keys typed at a terminal of the aggregator's launcher are not for GDB.
                start_new_session=True,
                stderr=process._stderr.file,
            )
            undo.pop_all()
        except OSError as error:
            raise GdbError(f"cannot start {argv[0]}: {error.strerror or error}") from None
        finally:
            undo.close()
        prefer_for_want_of_memory(process.pid)
        return process

    @property
    def pid(self) -> int:
        """Process id of the GDB."""
        return self._transport.get_pid() if self._transport is not None else 0

    def write(self, line: str) -> None:
        """Queue one line for GDB; one that has ended says so through *on_end*."""
        assert self._transport is not None
        stdin = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
        if stdin is not None and not stdin.is_closing():
            stdin.write(line.encode() + b"\n")

    def close_input(self) -> None:
        """Let GDB take its breakpoints out, detach and end."""
        if self._transport is not None:
            stdin = self._transport.get_pipe_transport(0)
            if stdin is not None:
                stdin.close()

    def kill(self) -> None:
        """End GDB by SIGKILL; for one whose rank has ended."""
        if self._transport is not None and self.is_alive:
            self._was_killed = True
            self._transport.kill()

    def _close(self) -> None:
        self._stderr.close()
        if self._transport is not None:
            self._transport.close()

    # asyncio.SubprocessProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the process runs."""
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Called by asyncio with what GDB wrote; hands whole lines on."""
        self._read(data)

    def process_exited(self) -> None:
        """Called by asyncio when the process has ended."""
        assert self._transport is not None
        self._last_errors = self._stderr.close()
        if self._last_errors:
            LOG.warning("GDB %d: %s", self.pid, self._last_errors.strip())
        self._end(self._transport.get_returncode() or 0)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Called by asyncio when a pipe has been read to its end, or is closed."""
        if fd == 1 and self._ended.is_set():
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the process has ended and all pipes are closed."""
        self._finish()


class ForkedGdb(GdbProcess, asyncio.Protocol):
    """A GDB that was forked from another, at the other end of a socket.

    It is no child of ours: whose child it is tells how it ended (:meth:`exited`), or its socket
    and the kernel tell that it has.
    """

    def __init__(self, pid: int, on_line: OnLine, on_end: OnEnd) -> None:
        super().__init__(on_line, on_end)
        self._pid = pid
        self._transport: asyncio.Transport | None = None
        self._process: int | None = None
        self.ready: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Whether it has said a first word, known once it has, or has ended without one."""

    @classmethod
    async def take(
        cls, connection: socket.socket, pid: int, on_line: OnLine, on_end: OnEnd
    ) -> ForkedGdb:
        """Speak with process *pid* over *connection*."""
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
        """Queue one line for GDB; one that has ended says so through *on_end*."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(line.encode() + b"\n")

    def close_input(self) -> None:
        """Let GDB take its breakpoints out, detach and end."""
        if self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(OSError):
                self._transport.write_eof()

    def kill(self) -> None:
        """End GDB by SIGKILL; for one whose rank has ended."""
        # By its descriptor where there is one: the number could be another process's by now.
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
            # Nobody has it yet: who has it forked tells.
            self.abandon()

    def exited(self, code: int | None) -> None:
        """Take how it ended: as a subprocess's return code, None if nobody knows."""
        self._forget_process()
        if not self._ended.is_set():
            self._end(code)
            if self._transport is None or self._transport.is_closing():
                self._finish()

    def abandon(self) -> None:
        """End it without a word: it has been given nothing to do."""
        self._is_finished = True
        self.kill()
        self._close()

    def _gone(self) -> None:
        """Take that the process has ended; how, its parent may be about to tell."""
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
        """Called by asyncio when it can be spoken with."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Called by asyncio with what GDB wrote; hands whole lines on."""
        if not self.ready.done():
            self.ready.set_result(True)
        self._read(data)

    def eof_received(self) -> bool:
        """Called by asyncio when GDB has closed its end."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio when the socket is closed, at the latest at the end of the process."""
        if not self.ready.done():
            self.ready.set_result(False)
        if self._ended.is_set():
            self._finish()
        elif self._process is None:
            asyncio.get_running_loop().call_later(_LAST_WORDS_S, self.exited, None)


def how_ended(code: int | None) -> str:
    """Return in words what the return code of a subprocess says, None if nobody knows it."""
    if code is None:
        return "has ended"
    return f"was ended by signal {-code}" if code < 0 else f"ended ({code})"


def why_ended(code: int | None, errors: str, log: str = "") -> str:
    """Return what is to be said behind :func:`how_ended` of one that we have not ended ourselves.

    *errors* is the last it wrote to standard error, *log* the last that it said elsewhere, which
    tells something of its end only where there is a known word in it.
    """
    if code == 0:
        return ""
    words = f"{errors}\n{log}"
    is_of_memory = _OF_MEMORY.search(words) is not None
    telling = _TELLING.search(words)
    if code in _FOR_WANT_OF_MEMORY and (is_of_memory or telling is None):
        # The same for all ranks: some do not come to say it.
        return ", which can be for want of memory"
    if is_of_memory:
        return ", for want of memory"
    last = telling[0] if telling is not None else errors.strip().rpartition("\n")[2]
    return f": {_cut(last)}" if last else ""


def _cut(words: str) -> str:
    words = words.strip()
    return words if len(words) <= _MOST_WORDS else f"{words[:_MOST_WORDS]}…"


def prefer_for_want_of_memory(pid: int) -> None:
    """Have the kernel end a GDB rather than a rank when there is no memory left on the host.

    Those forked from it inherit that.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text(_FIRST_TO_END)


def command_line(gdb: str, *modules: str) -> list[str]:
    """Return the command line of a GDB that speaks MI and runs ``main`` of our modules first.

    Those are what every GDB of ours has, and *modules*; all are beside this one, see
    :func:`environment_with_code`. A GDB without Python only says that it has none. GDB's own and
    the user's start files are left out.
    """
    modules = (*_IN_EVERY_GDB, *modules)
    code = (
        f'import os, sys; sys.path.insert(0, os.environ.pop("{_CODE_VARIABLE}")); '
        f"import {', '.join(modules)}; del sys.path[0]; "
        f"{'; '.join(f'{module}.main()' for module in modules)}"
    )
    # A GDB that fails lifts the limit for core files, and leaves one of itself.
    settings = "maint set internal-error corefile no"
    return [gdb, "-nx", "-q", "-i=mi3", "-iex", settings, "-iex", f"python {code}"]


def environment_with_code(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which :func:`command_line` finds its module."""
    return {**environment, _CODE_VARIABLE: _CODE}


def start_with(gdb: str, environment: Mapping[str, str]) -> Start:
    """Return what starts a GDB of its own.

    GDB writes what it quotes letter by letter, which costs it and us as much time as the rest of
    attaching (21,000 writes for a job with 70 libraries); so its output is set to go by lines.
    """
    argv = command_line(gdb)
    inherited = environment_with_code(environment)

    def start(on_line: OnLine, on_end: OnEnd) -> Awaitable[GdbProcess]:
        return StartedGdb.start(argv, inherited, on_line, on_end)

    return start
