"""One conversation with one GDB: results are matched with commands by token, the rest are events.

The session is driven by tokens alone: it waits for no prompt and polls nothing. GDB carries
commands out in their order, so its output belongs to the oldest command without a result, and to no
command if there is none.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.gdb_events import Listener
from pgdb.backend.gdb.input_watch import EATEN, HAS_READ, READS_INPUT, InputWatch
from pgdb.backend.gdb.lent_setting import LentSetting, repeat_if_interrupted
from pgdb.backend.gdb.mi import Line, Result, console, cut, notices_in, quote
from pgdb.backend.gdb.mi_lines import Pieces, cut_pieces
from pgdb.backend.gdb.process import GdbProcess, Start
from pgdb.backend.gdb.stop_words import FIRST_THREAD, Announcements
from pgdb.backend.gdb.typed_displays import TypedDisplays
from pgdb.backend.gdb.user_errors import UserErrors
from pgdb.errors import GdbError

LOG = logging.getLogger(__name__)

_MOST_OF_LOG = 4096
_PING = "-gdb-show confirm"
_WARNING = "warning: "
_PROMPT = b"(gdb)"
_SELECTS_FRAME = '-interpreter-exec console "frame '
_LIBRARY_LOADED = b"=library-loaded,"
_NOTHING_GIVEN_UP = "Quit\n"  # at a SIGINT; a command that is given up has an error that says so


@dataclass(slots=True)
class _Pending:
    future: asyncio.Future[Result]
    result: Result
    prints: bool
    texts: list[str]
    reads_input: bool = False
    selects_frame: bool = False


class GdbSession:
    """A running GDB and the commands that it has not answered."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._process: GdbProcess | None = None
        self._token = 0
        self.changes = 0
        """Counter of GDB's events and of the commands that are no questions."""
        self._pending: dict[int, _Pending] = {}  # in the order in which they were sent
        self._between = 0
        """Token of the last question that was asked while a command had no answer."""
        self._held: tuple[_Pending, Line] | None = None
        """The result of a command that can have read that question."""
        self._ran: int | None = None
        """The latest command that has set the inferior running."""
        self.rest_of_code: asyncio.Future[Result] | None = None  # if it has run the inferior
        self.when_running: Callable[[], None] = lambda: None
        """Called when a command has set the inferior running, before the next event."""
        self.when_silent: Callable[[], None] = lambda: None
        """Called when GDB's output has ended; GDB ends, or has been killed."""
        self._run_log = ""
        self._errors = UserErrors()
        self._is_looking = False
        """Whether GDB is being asked if the inferior is stopped after all."""
        self.announced = Announcements()
        self.stops = 0
        """Number of stops, also of functions that GDB has called."""
        self.runs = 0
        """Number of times that GDB has reported that the inferior runs."""
        self._closing = False
        self._put_off: list[str] = []
        self.input = InputWatch(self)
        """Watch for commands that read GDB's input."""
        self.lent = LentSetting()
        """The setting of the user's that has another value for PGDB's questions."""
        self.displays = TypedDisplays()
        self._has_failed = False
        # Lines behind a big line that is being parsed.
        self._backlog: list[bytes | Pieces] | None = None
        self._parsing: asyncio.Task[None] | None = None
        self._how = ""
        self.is_remote = False
        """Whether GDB has the rank through a gdbserver, and does not trace it itself."""
        self.first_thread = FIRST_THREAD
        """GDB's number of the rank's first thread; another one for a child of a wrapper."""

    async def start(self, start: Start) -> None:
        """Start the GDB.

        :raises GdbError: if it cannot be started, or is given up meanwhile.
        """
        if not self._closing:
            self._process = await start(self._line, self._ended)
            self._process.when_silent = lambda: self.when_silent()
        if self._closing:
            # This GDB has no rank yet, and another one may be about to attach.
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
        """Send MI commands in one write, so that GDB wakes once; see :meth:`send`."""
        self.changes += 1
        first, self._put_off = self._put_off, []
        results = self.ask_together(*first, *commands)
        for command, done in zip(first, results, strict=False):
            done.add_done_callback(functools.partial(self._note_failure, command))
        return results[len(first) :]

    def _note_failure(self, command: str, done: asyncio.Future[Result]) -> None:
        if done.cancelled() or done.exception() is not None or done.result().kind != "error":
            return
        LOG.error("a command that was put off failed: %s", done.result().message)
        if not self._has_failed:
            # An interrupt can have ended it.
            self._has_failed = True
            self.put_off(command)

    def put_off(self, *commands: str) -> None:
        """Send *commands* before the next command that is no question."""
        self._put_off += commands

    @property
    def is_asked_only(self) -> bool:
        """Whether a command is still put off: GDB has got only questions since."""
        return bool(self._put_off)

    def ask_together(self, *commands: str) -> list[asyncio.Future[Result]]:
        """Send MI commands that do not change GDB's stacks; see :meth:`send_together`."""
        restore = self.lent.take_back(commands)
        if not restore:
            return self._write(*commands)
        restored, *others = self._write(restore, *commands)
        restored.add_done_callback(functools.partial(repeat_if_interrupted, self._write, restore))
        return others

    def _write(self, *commands: str) -> list[asyncio.Future[Result]]:
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
            # Only console commands print; output during an MI command belongs to no command.
            prints = command.startswith("-interpreter-exec")
            pending = _Pending(future, Result(kind=""), prints, [])
            pending.selects_frame = command.startswith(_SELECTS_FRAME)
            self._pending[self._token] = pending
            lines.append(f"{self._token}{command}")
            if prints:
                self.input.start()
        process.write("\n".join(lines))
        return futures

    @property
    def oldest_token(self) -> int | None:
        """Token of the oldest command without an answer, None if none waits for GDB itself."""
        if self._backlog is not None or not self.is_alive:
            return None
        return next(iter(self._pending), None)

    @property
    def has_read_all(self) -> bool:
        """Whether GDB has read all that was sent to it."""
        return self._process is not None and self._process.has_read_all

    def ask_in_between(self) -> asyncio.Future[Result]:
        """Ask as :meth:`ping` does; a setting that PGDB has changed stays."""
        (asked,) = self._write(_PING)
        self._between = self._token
        return asked

    def take_notices(self, text: str) -> str:
        """Take the notices in the text of a command (GDB 18.1); return the text without them."""
        text, notices = notices_in(text)
        for each in notices:
            self._take(each)
        return text

    def interrupt_reader(self) -> None:
        """Interrupt GDB, whose oldest command reads the commands behind it as its input."""
        if self._pending:
            self._oldest().reads_input = True
        self.interrupt()

    def ping(self) -> asyncio.Future[Result]:
        """Ask GDB a question that it answers at once, unless it does not read its input."""
        return self.ask_together(_PING)[0]

    def ping_after_interrupt(self) -> asyncio.Future[Result]:
        """Ask as :meth:`ping` does; the interrupt may have changed GDB's stacks."""
        return self.send(_PING)

    def console(self, command: str) -> asyncio.Future[Result]:
        """Send a command of GDB's command line; see :meth:`send`."""
        return self.send(console(command))

    def set(self, setting: str) -> asyncio.Future[Result]:
        """Change a setting; *setting* is its name and its value."""
        return self.send(f"-gdb-set {setting}")

    def evaluate(self, expression: str) -> asyncio.Future[Result]:
        """Evaluate an expression; the payload of the result has its ``value`` as text."""
        return self.send(f"-data-evaluate-expression {quote(expression)}")

    def evaluate_in_c(self, expression: str) -> asyncio.Future[Result]:
        """Evaluate an integer in C in every frame; the answer of the result is its decimal text."""
        return self.console(f"with language c -- output/d {expression}")

    def write_memory(self, address: int, data: bytes) -> asyncio.Future[Result]:
        """Write to the memory of the stopped rank."""
        return self.send(f"-data-write-memory-bytes {address:#x} {data.hex()}")

    def wake(self) -> None:
        """Resume GDB if a signal has stopped it."""
        if self._process is not None:
            self._process.wake()

    def interrupt(self) -> None:
        """Make GDB give up its current work, as Ctrl-C does."""
        if self._process is not None:
            self._process.interrupt()

    def stop_waiting(self, why: str, *, but_for: asyncio.Future[Result] | None = None) -> None:
        """Let all commands without a result fail, except one; GDB may still carry them out."""
        for entry in [*self._pending.values()]:
            if not entry.future.done() and entry.future is not but_for:
                entry.future.set_exception(GdbError(why))
                entry.future.exception()  # nobody may be waiting

    def close_input(self) -> None:
        """Make GDB detach and end in its own time."""
        self._closing = True
        if self._process is not None:
            self._process.close_input()

    def kill(self) -> None:
        """End GDB at once; only if its rank has ended, or if nothing else helps.

        :mod:`.process` says what that leaves in a rank.
        """
        self._closing = True
        if self._process is not None:
            self._process.kill()

    async def close(self, timeout_s: float) -> bool:
        """Close GDB's input, so that GDB detaches and ends; return whether it ended in time."""
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
            if line.startswith(_PROMPT):
                self._errors.on_prompt()
                return
            if line.startswith(_LIBRARY_LOADED):
                # An attach brings one for each library, and nothing needs its fields.
                self.changes += 1
                self._listener.on_notice("library-loaded", {})
                return
            self._take(cut(self._renamed(line)))
        else:
            self._backlog = []
            self._parsing = asyncio.get_running_loop().create_task(self._take_big(line))

    def _renamed(self, line: bytes) -> bytes:
        """Return the line to be read in place of *line*; may be called in a thread."""
        return line

    async def _take_big(self, pieces: Pieces) -> None:
        """Parse a big line while the loop runs, then take it and the lines that have come since."""
        lines: deque[bytes | Pieces] = deque([pieces])
        try:
            while lines:
                line = lines.popleft()
                if isinstance(line, bytes) and line.startswith(_PROMPT):
                    self._errors.on_prompt()
                elif isinstance(line, bytes):
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
            self._errors.on_prompt()
            self._result(part)
        elif part.kind == "*":
            self.changes += 1
            # The announcement of a stop comes before it.
            if self._pending and not (oldest := self._oldest()).prints:
                self._give_out(oldest.texts)
            if part.name == "stopped":
                self.stops += 1
                self._ran = None
                self._errors.on_stopped()
                self._listener.on_stopped(decode.last_stop(part.payload))
            elif part.name == "running":
                if part.payload.get("thread-id", "all") == "all":
                    self.runs += 1
                    self.announced.clear()
                self._listener.on_running()
        elif part.kind == "=":
            asked = self._oldest() if self._pending else None
            if asked is None or not asked.selects_frame or part.name != "thread-selected":
                # The selection of a frame changes no stack.
                self.changes += 1
            if asked is not None:
                asked.result.notices.append((part.name, part.payload))
            self._listener.on_notice(part.name, part.payload)
        elif part.kind in ("~", "@"):
            # It belongs to a later command if GDB does not carry out the oldest one.
            texts = self._oldest().texts if self._pending else []
            texts.append(self.take_notices(part.text))
            if not self._pending:
                self._give_out(texts)
        elif part.kind == "&" and part.text != _NOTHING_GIVEN_UP:
            if self._process is not None:
                self._process.said(part.text)
            is_users = self._is_of_user(part.text)
            if self._pending and not is_users:
                oldest = self._oldest()
                oldest.result.complaints.append((sum(map(len, oldest.texts)), part.text))
            if (self._ran is not None or not self._pending) and not is_users:
                # A command that was sent while the rank runs may be open when GDB complains of the
                # run.
                self._run_log = (self._run_log + part.text)[-_MOST_OF_LOG:]
            # A warning is about something else, such as a process that GDB may not look into.
            is_error = not part.text.startswith(_WARNING)
            if self._ran is not None and is_error and not self._is_looking:
                self._is_looking = True
                listed = self.ask_together("-thread-info")[0]
                listed.add_done_callback(functools.partial(self._on_threads, self.runs))

    def _is_of_user(self, log: str) -> bool:
        """Give out an error of the user's own code at a stop; return whether the text is one."""
        oldest = self._oldest() if self._pending else None
        if oldest is not None and oldest.prints:
            return False  # a command that calls a function of the program has errors at its stops
        text = self._errors.text(log, is_running=self._ran is not None)
        if text and oldest is not None:
            oldest.texts.append(text)  # behind the text that GDB has printed before
        elif text:
            self._give_out([text])
        return bool(text)

    def _on_threads(self, run: int, asked: asyncio.Future[Result]) -> None:
        """Report a stop that GDB has not reported.

        GDB 13.1 reports none if it meets an error at the stop, in the format of a ``dprintf`` for
        example.
        """
        self._is_looking = False
        if asked.cancelled() or asked.exception() is not None:
            return
        threads = decode.mappings(asked.result().payload.get("threads"))
        states = {str(each.get("state")) for each in threads}
        if "stopped" not in states or self._ran is None or self.runs != run:
            return
        if states == {"stopped"}:
            self._ran = None
            self._listener.on_unreported_stop()
        else:
            self._listener.on_output(self.take_run_log() + "\n")
            stopped = next(each for each in threads if each.get("state") == "stopped")
            self._listener.on_partly_stopped(str(stopped.get("id")))

    def _give_out(self, texts: list[str]) -> None:
        """Report text that belongs to no command."""
        while texts:
            text = texts.pop(0)
            self.announced.add(text)
            self._listener.on_output(text)

    def take_run_log(self) -> str:
        """Return GDB's recent complaints about the run, on one line."""
        log, self._run_log = self._run_log, ""
        return " ".join(log.split())

    def _oldest(self) -> _Pending:
        return next(iter(self._pending.values()))

    def _result(self, part: Line) -> None:
        entry = self._pending.pop(part.token, None) if part.token is not None else None
        if entry is None and part.name == "error" and part.token == self._ran is not None:
            # GDB reports that the rank runs before it inserts breakpoints, for example. A command
            # such as "thread apply 1 1 continue" can also fail after it has set the rank running.
            self._ran = None
            late = Result(part.name, part.payload)
            if not late.says_that_it_runs:
                self._listener.on_run_failed(late.message)
            return
        if entry is None:
            LOG.warning("GDB %d answered a command of nobody: token %s", self.pid, part.token)
            return
        held, self._held = self._held, None
        if held is not None:
            was_read = part.token != self._between
            self._finish(*held, HAS_READ if was_read else "")
        self._drop_before(entry, part.token)
        oldest = next(iter(self._pending), None)
        is_doubtful = entry.prints and not entry.reads_input and part.name != "running"
        if is_doubtful and oldest == self._between:
            # A second question shows whether the command has read the first one.
            self._held = entry, part
            self._write(_PING)
            return
        self._finish(entry, part, READS_INPUT if entry.reads_input else "")

    def _finish(self, entry: _Pending, part: Line, why: str) -> None:
        """Hand out a result; *why* is set if the command has read PGDB's commands."""
        future, result = entry.future, entry.result
        if not entry.prints:
            self._give_out(entry.texts)
        if why and (part.name == "error" or why == HAS_READ):
            part = Line("^", part.token, "error", {"msg": why})
        result.kind, result.line, result.text = part.name, part, "".join(entry.texts)
        if part.name == "running":
            self._ran, self._run_log = part.token, ""
            self.when_running()
        if not future.done():
            future.set_result(result)

    def _drop_before(self, answered: _Pending, token: int | None) -> None:
        """Give up the commands before the one that GDB has answered: it answers in their order."""
        lost = [each for each in self._pending if token is not None and each < token]
        for each in reversed(lost):
            LOG.warning("GDB %d has not carried out the command with token %d", self.pid, each)
            dropped = self._pending.pop(each)
            moved = sum(map(len, dropped.texts))
            later = [(at + moved, part) for at, part in answered.result.complaints]
            answered.result.complaints = dropped.result.complaints + later
            answered.texts[:0] = dropped.texts
            answered.reads_input |= dropped.reads_input
            answered.result.notices[:0] = dropped.result.notices
            if not dropped.future.done():
                dropped.future.set_exception(GdbError(EATEN))
                dropped.future.exception()  # nobody may be waiting

    def _ended(self, why: str) -> None:
        if self._backlog is not None:
            self._how = why
            return
        held, self._held = self._held, None
        if held is not None:
            self._finish(*held, "")
        pending, self._pending = self._pending, {}
        for entry in pending.values():
            if not entry.future.done():
                entry.future.set_exception(GdbError(why))
                entry.future.exception()  # nobody may be waiting
        self._listener.on_end(why)
