"""One conversation with one GDB: commands matched with results by token, the rest as events.

Driven by tokens alone: no prompt is waited for, nothing is polled. GDB carries commands out in
the order in which they come, so what it prints belongs to the oldest one without a result, and
to none when there is no such command.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mi import Line, Result, cut
from pgdb.backend.gdb.mi_lines import Pieces, cut_pieces
from pgdb.backend.gdb.process import GdbProcess, Start
from pgdb.errors import GdbError

LOG = logging.getLogger(__name__)

_MOST_OF_LOG = 4096
_NOTHING_GIVEN_UP = "Quit\n"  # at a SIGINT; a command that is given up has an error that says so


class Listener(Protocol):
    """What a GDB tells unasked."""

    def on_stopped(self, payload: dict[str, Any]) -> None:
        """The inferior has stopped or ended."""

    def on_running(self) -> None:
        """The inferior runs."""

    def on_run_failed(self, message: str) -> None:
        """The inferior does not run after all, of which GDB had said that it does."""

    def on_notice(self, name: str, payload: dict[str, Any]) -> None:
        """Something has changed: breakpoints, threads, libraries."""

    def on_output(self, text: str) -> None:
        """GDB printed something that belongs to no command."""

    def on_end(self, why: str) -> None:
        """GDB has ended; there are no further calls."""


@dataclass(slots=True)
class _Pending:
    future: asyncio.Future[Result]
    result: Result
    prints: bool
    texts: list[str]


class GdbSession:
    """A running GDB and the commands that it has not answered yet."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._process: GdbProcess | None = None
        self._token = 0
        self.changes = 0
        """Grows with all commands that are no questions, and with all that GDB tells unasked."""
        # In the order in which they were sent, which is the order of dicts.
        self._pending: dict[int, _Pending] = {}
        self._ran: int | None = None
        """The command that has set the inferior running last."""
        self._run_log = ""
        self._closing = False
        self._put_off = ""
        self._has_failed = False
        # What has come behind a big line that is being parsed.
        self._backlog: list[bytes | Pieces] | None = None
        self._parsing: asyncio.Task[None] | None = None
        self._how = ""

    async def start(self, start: Start) -> None:
        """Start the GDB.

        :raises GdbError: if it cannot be started, or is given up meanwhile.
        """
        if not self._closing:
            self._process = await start(self._line, self._ended)
        if self._closing:
            # It has no rank yet, and another one may be to have it by now.
            self.kill()
            raise GdbError("its GDB was given up before it was there")

    @property
    def pid(self) -> int:
        """Process id of the GDB, 0 before it is started."""
        return self._process.pid if self._process is not None else 0

    @property
    def is_alive(self) -> bool:
        """Whether the GDB has been started and has not ended."""
        return self._process is not None and self._process.is_alive

    def send(self, command: str) -> asyncio.Future[Result]:
        """Send one MI command; its result comes through the future.

        The future raises :class:`~pgdb.errors.GdbError` if GDB ends first.
        """
        return self.send_together(command)[0]

    def send_together(self, *commands: str) -> list[asyncio.Future[Result]]:
        """Send MI commands at once, so that GDB need not be woken for each; see :meth:`send`."""
        self.changes += 1
        first, self._put_off = self._put_off, ""
        if not first:
            return self.ask_together(*commands)
        done, *others = self.ask_together(first, *commands)
        done.add_done_callback(functools.partial(self._note_failure, first))
        return others

    def _note_failure(self, command: str, done: asyncio.Future[Result]) -> None:
        if done.cancelled() or done.exception() is not None or done.result().kind != "error":
            return
        LOG.error("a command that was put off failed: %s", done.result().message)
        if not self._has_failed:
            # An interrupt can have ended it.
            self._has_failed = True
            self.put_off(command)

    def put_off(self, command: str) -> None:
        """Have *command* sent before the first that is not a question."""
        self._put_off = command

    @property
    def is_asked_only(self) -> bool:
        """Whether there is a command put off still: GDB has been told nothing since."""
        return bool(self._put_off)

    def ask_together(self, *commands: str) -> list[asyncio.Future[Result]]:
        """Send MI commands at which nothing changes that GDB tells of a stack; else as above."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Result]] = [loop.create_future() for _ in commands]
        process = self._process
        if process is None or not process.is_alive or self._closing:
            why = "its GDB has ended"
            if process is not None and not process.is_alive:
                why = process.how
            for future in futures:
                future.set_exception(GdbError(why))
                future.exception()  # nobody may be waiting, which asyncio must not complain of
            return futures
        lines = []
        for command, future in zip(commands, futures, strict=True):
            self._token += 1
            # Only console commands print; what comes while an MI command is under way is unasked.
            prints = command.startswith("-interpreter-exec")
            self._pending[self._token] = _Pending(future, Result(kind=""), prints, [])
            lines.append(f"{self._token}{command}")
        process.write("\n".join(lines))
        return futures

    def wake(self) -> None:
        """Let GDB go on if somebody has stopped it by a signal."""
        if self._process is not None:
            self._process.wake()

    def interrupt(self) -> None:
        """Have GDB give up what it does, as by Ctrl-C."""
        if self._process is not None:
            self._process.interrupt()

    def close_input(self) -> None:
        """Let GDB detach and end in its own time."""
        self._closing = True
        if self._process is not None:
            self._process.close_input()

    def kill(self) -> None:
        """End GDB at once; only where there is no rank any longer, or where nothing else helps.

        See :mod:`.process` for what that leaves in a rank.
        """
        self._closing = True
        if self._process is not None:
            self._process.kill()

    async def close(self, timeout_s: float) -> bool:
        """Close GDB's input, at which it detaches and ends; return whether it ended in time."""
        self.close_input()
        if self._process is None:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._process.wait_ended()
        except TimeoutError:
            return False
        return True

    async def read_memory(self, address: int, size_bytes: int) -> bytes:
        """Read the memory of the stopped rank.

        :raises GdbError: if GDB cannot read all of it, or ends.
        """
        result = await self.send(f"-data-read-memory-bytes {address:#x} {size_bytes}")
        if result.kind == "error":
            raise GdbError(result.message)
        data = decode.memory(result.payload)
        if len(data) != size_bytes:
            raise GdbError(f"only {len(data)} of {size_bytes} bytes at {address:#x} can be read")
        return data

    def _line(self, line: bytes | Pieces) -> None:
        if self._backlog is not None:
            self._backlog.append(line)
        elif isinstance(line, bytes):
            if line.startswith(b"(gdb)"):
                return
            self._take(cut(self._renamed(line)))
        else:
            self._backlog = []
            self._parsing = asyncio.get_running_loop().create_task(self._take_big(line))

    def _renamed(self, line: bytes) -> bytes:
        """Return what is to be read in place of *line*; may be called in a thread."""
        return line

    async def _take_big(self, pieces: Pieces) -> None:
        """Parse a big line while the loop goes on, then take it and what has come since."""
        lines: deque[bytes | Pieces] = deque([pieces])
        try:
            while lines:
                line = lines.popleft()
                if isinstance(line, bytes):
                    self._take(cut(self._renamed(line)))
                else:
                    self._take(await asyncio.to_thread(cut_pieces, line, self._renamed))
                lines.extend(self._backlog or ())
                self._backlog = []
        finally:
            self._backlog = None
        if self._how:
            self._ended(self._how)

    def _take(self, part: Line) -> None:
        if part.kind == "^":
            self._result(part)
        elif part.kind == "*":
            self.changes += 1
            if part.name == "stopped":
                self._ran = None
                self._listener.on_stopped(part.payload)
            elif part.name == "running":
                self._listener.on_running()
        elif part.kind == "=":
            self.changes += 1
            if self._pending:
                self._oldest().result.notices.append((part.name, part.payload))
            self._listener.on_notice(part.name, part.payload)
        elif part.kind in ("~", "@"):
            oldest = next(iter(self._pending.values()), None)
            if oldest is not None and oldest.prints:
                oldest.texts.append(part.text)
            else:
                self._listener.on_output(part.text)
        elif part.kind == "&" and part.text != _NOTHING_GIVEN_UP:
            if self._process is not None:
                self._process.said(part.text)
            if self._pending:
                self._oldest().result.log += part.text
            if self._ran is not None or not self._pending:
                # A command sent while the rank runs may be open when the run is complained of.
                self._run_log = (self._run_log + part.text)[-_MOST_OF_LOG:]

    def take_run_log(self) -> str:
        """Return what GDB has complained of lately while the rank ran, on one line."""
        log, self._run_log = self._run_log, ""
        return " ".join(log.split())

    def _oldest(self) -> _Pending:
        return next(iter(self._pending.values()))

    def _result(self, part: Line) -> None:
        entry = self._pending.pop(part.token, None) if part.token is not None else None
        if entry is None and part.name == "error" and part.token == self._ran is not None:
            # GDB says that it runs before it puts breakpoints in, for one.
            self._ran = None
            self._listener.on_run_failed(Result(part.name, part.payload).message)
            return
        if entry is None:
            LOG.warning(
                "GDB %d answered a command that nobody sent: token %s", self.pid, part.token
            )
            return
        future, result = entry.future, entry.result
        result.kind, result.line, result.text = part.name, part, "".join(entry.texts)
        if part.name == "running":
            self._ran, self._run_log = part.token, ""
        if not future.done():
            future.set_result(result)

    def _ended(self, why: str) -> None:
        if self._backlog is not None:
            self._how = why
            return
        pending, self._pending = self._pending, {}
        for entry in pending.values():
            if not entry.future.done():
                entry.future.set_exception(GdbError(why))
                # Somebody who gave up waiting must not make asyncio complain of it.
                entry.future.exception()
        self._listener.on_end(why)
