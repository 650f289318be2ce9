"""Batch mode: commands from files and the command line, text or JSON lines out, no terminal."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO, cast

from msgspec.structs import replace

from pgdb.controls import OutputFilter
from pgdb.errors import PgdbError, SessionEndedError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.breakpoint_file import for_ranks
from pgdb.frontend.api.notifications import JobOutput, LateAnswer, Notification
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands.dispatch import Dispatcher, Quit
from pgdb.frontend.commands.exit_status import EXIT_FAILED
from pgdb.frontend.commands.table import Shown
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.show.json import json_lines, json_notifications, json_shapes
from pgdb.frontend.show.shown import Waiting
from pgdb.frontend.show.text import render
from pgdb.frontend.show.transcript import Transcript
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record

_LEAVING = ("quit", "exit")


class Script:
    """Lines from ``-x`` files and ``-ex`` commands, in the order in which they were given."""

    def __init__(self, parts: Sequence[tuple[str, str]]) -> None:
        lines: list[str] = []
        for kind, value in parts:
            if kind == "ex":
                lines += value.split("\n")
                continue
            if value.endswith((".py", ".scm")):
                # As in GDB, the name says what the file has.
                lines.append(f"source {shlex.quote(value)}")
                continue
            try:
                text = Path(value).read_text("utf-8").replace("\r\n", "\n")
                lines += for_ranks(text.removesuffix("\n").split("\n"))
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is no text file"
                raise UsageError(f"-x {value}: {reason}") from None
        self.has_commands = bool(parts)
        """Whether the command line has commands."""
        self._lines: Iterator[str] = iter(lines)

    async def read(self, prompt: str) -> str | None:
        """Return the next line, None after the last."""
        del prompt
        return next(self._lines, None)


class BatchText(TextDisplay):
    """Text for a log: commands, answers, and the job's output unchanged on pgdb's own streams.

    A stream that is a terminal gets the output without its control sequences.
    """

    _is_mid_line = False

    def command(self, focus: RankSet, line: str) -> None:
        """Show a command before it is carried out, in the format of the prompt."""
        if line.strip() and not line.lstrip().startswith("#"):
            self.flush()
            self.text(f"(pgdb {focus}) {line}")

    def output(self, output: JobOutput) -> None:
        """Write output of the job: byte for byte, filtered to a terminal."""
        data = output.data
        stream = self._stream_of(output.stream)
        if stream.isatty():
            self._clear_progress()
            data = _encoded(
                self._filters.setdefault(output.stream, OutputFilter()).feed(data), stream
            )
        self._pass_on(output.stream, data)

    def _end_lines(self) -> None:
        for name, kept in self._filters.items():
            if text := kept.end():
                self._pass_on(name, _encoded(text, self._stream_of(name)))

    def _pass_on(self, name: str, data: bytes) -> None:
        stream = self._stream_of(name)
        self.transcript.write(data.decode("utf-8", "backslashreplace"))
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()
        if name == "stdout" and data:
            self._is_mid_line = not data.endswith(b"\n")

    @staticmethod
    def _stream_of(name: str) -> TextIO:
        return sys.stdout if name == "stdout" else sys.stderr

    def text(self, text: str) -> None:
        """Show a message, on a line of its own even behind an unfinished line of the job."""
        newline = "\n" if self._is_mid_line else ""
        self._is_mid_line = False
        super().text(newline + text)


def _encoded(text: str, stream: TextIO) -> bytes:
    return text.encode(stream.encoding or "utf-8", "backslashreplace")


class JsonDisplay:
    """One JSON object per line on standard output, and nothing else."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.transcript = Transcript()
        """Gets a copy of every line."""
        self._next_progress_s = 0.0
        self.diverted: tuple[type, ...] = ()
        """Has no effect: programs get a line for each notification."""

    @property
    def width(self) -> int:
        """No limit: programs do not read the text of an answer."""
        return 0

    @property
    def owns_output(self) -> bool:
        """Whether no other program may write to standard output: every line is JSON."""
        return True

    def hello(self, session: Session) -> None:
        """Write the first line."""
        self.write(json_lines.hello(session, time.time()))

    def command(self, focus: RankSet, line: str) -> None:
        """Do nothing: every answer names its command."""

    def answer(self, answer: Answer, text: str, *, is_source: bool) -> None:
        """Write the answer to a command, and the breakpoints it made."""
        del text, is_source
        now_s = time.time()

        def text_of(each: EquivalenceClass[Record]) -> str:
            return render.record(each, answer.command)

        self.write(json_lines.answer(answer, text_of, now_s))
        for line in json_lines.breakpoints(answer, now_s):
            self.write(line)

    def text(self, text: str) -> None:
        """Write a message that is no answer of ranks."""
        self.write(json_shapes.OutputLine(time=time.time(), stream="pgdb", text=text + "\n"))

    def shown(self, shown: Shown) -> None:
        """Write a tree, a picture, a comparison as a line of its own kind, else as text."""
        if shown.line is None:
            self.text(shown.text)
        else:
            line = replace(shown.line, time=time.time())
            self.write(cast(json_shapes.Line, line))

    def error(self, error: PgdbError, command: str) -> None:
        """Write an error."""
        self.write(json_lines.error(str(error), time.time(), command))

    def flush(self) -> None:
        """Do nothing: every event is written as it comes."""

    def notify(self, notification: Notification) -> None:
        """Write a notification."""
        command = notification.answer.command if isinstance(notification, LateAnswer) else ""

        def text_of(each: EquivalenceClass[Record]) -> str:
            return render.record(each, command)

        for line in json_notifications.notification(notification, text_of, time.time()):
            self.write(line)

    def waiting(self, progress: Waiting | None) -> None:
        """Write the progress of a wait, less and less often."""
        if progress is None or progress.elapsed_s < self._next_progress_s:
            self._next_progress_s = self._next_progress_s if progress else 0.0
            return
        self._next_progress_s = min(2 * progress.elapsed_s, progress.elapsed_s + 60.0)
        self.write(
            json_shapes.WaitingLine(
                time=time.time(),
                command=progress.command,
                ranks=str(progress.ranks),
                running=str(progress.running),
                elapsed_s=round(progress.elapsed_s, 1),
            )
        )

    def write(self, line: json_shapes.Line) -> None:
        """Write one line."""
        text = json_lines.encode(line) + "\n"
        self.transcript.write(text)
        if not self.transcript.is_redirected:
            self._out.write(text)
            self._out.flush()

    def end(self, status: int) -> None:
        """Write the last line."""
        self.write(json_lines.end(status, time.time()))

    def close(self) -> None:
        """Do nothing: no output is kept back."""


async def run_script(dispatcher: Dispatcher, script: Script) -> bool | None:
    """Carry out all lines; return whether the job is to be killed, None for the usual rule."""
    while (line := await script.read("")) is not None:
        try:
            dispatcher.display.command(dispatcher.workspace.focus, line)
            await dispatcher.run_line(line)
        except Quit as leaving:
            await complain_of_rest(dispatcher, script, leaving)
            return leaving.kill
    return None


async def complain_of_rest(dispatcher: Dispatcher, script: Script, leaving: Quit) -> None:
    """Show the lines of a script that come too late, unless the script has ended the session."""
    rest: list[str] = []
    while leaving.why and (line := await script.read("")) is not None:
        line = line.strip()
        if gdb_commands.resolve(line) in _LEAVING:
            break
        if line and not line.startswith("#"):
            rest.append(line)
    if not rest:
        return
    more = f" and {len(rest) - 1} more" if len(rest) > 1 else ""
    error = SessionEndedError(f"{leaving.why}; not carried out: '{rest[0]}'{more}")
    dispatcher.worsen(EXIT_FAILED)
    dispatcher.display.error(error, rest[0])
