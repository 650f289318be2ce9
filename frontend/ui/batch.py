"""Displays of batch mode: text or JSON lines, no terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, TextIO, cast

from msgspec.structs import replace

from pgdb.controls import OutputFilter
from pgdb.errors import PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.notifications import JobOutput, LateAnswer, Notification
from pgdb.frontend.api.session import Session
from pgdb.frontend.show.display import TextDisplay
from pgdb.frontend.show.json import json_lines, json_notifications, json_shapes
from pgdb.frontend.show.shown import Waiting
from pgdb.frontend.show.text import render
from pgdb.frontend.show.transcript import Transcript
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record

if TYPE_CHECKING:
    from pgdb.frontend.commands.table import Shown


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
        """Transcript, which gets a copy of every line."""
        self._next_progress_s = 0.0
        self.diverted: tuple[type, ...] = ()
        """Notifications of another display; without effect, as programs get a line for each."""

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
                held=str(progress.held),
                stopped=str(progress.stopped),
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
