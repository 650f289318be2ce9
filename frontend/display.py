"""How a session is shown to a person: events merged over a short window, answers, output.

The REPL and text batch mode share it; :mod:`pgdb.frontend.batch` has the one for programs.
"""

from __future__ import annotations

import asyncio
import linecache
import os
import sys
from typing import TextIO

from pgdb.errors import PgdbError
from pgdb.frontend import render
from pgdb.frontend.answers import Answer
from pgdb.frontend.session import Told
from pgdb.overlay.node import EventBuffer
from pgdb.ranks import RankSet
from pgdb.records import Progress

WINDOW_S = 0.15
"""Stops that come within this time are told together."""


class TextDisplay:
    """Text on a terminal or in a file."""

    def __init__(self, out: TextIO | None = None, *, color: bool = False) -> None:
        self._out = out
        self._color = color
        self._events = EventBuffer()
        self._timer: asyncio.TimerHandle | None = None
        self._open_lines: dict[str, str] = {}
        self._last_word = ""

    # -- Display -----------------------------------------------------------------------------

    def answer(self, answer: Answer, text: str, *, is_source: bool) -> None:
        """Show the answer to a command."""
        del answer
        if text:
            self.text(highlight(text) if is_source and self._color else text)

    def command(self, focus: RankSet, line: str) -> None:
        """Do nothing: what was typed at the prompt stands there."""

    def text(self, text: str) -> None:
        """Show a message."""
        self._write(text + "\n")

    def error(self, error: PgdbError, command: str) -> None:
        """Show an error."""
        del command
        self._write(f"{error}\n")

    def flush(self) -> None:
        """Show what ranks have told up to now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for classes in self._events.take():
            if text := render.events(classes, source_line):
                self.text(text)
        if self._last_word:
            # The ends of its ranks can be told a moment later than the launcher's own.
            self._end_lines()
            self.text(self._last_word)
            self._last_word = ""

    # -- what the session tells --------------------------------------------------------------

    def told(self, told: Told) -> None:
        """Take what the session tells unasked."""
        match told.kind:
            case "event":
                for each in told.classes:
                    if not isinstance(each.record, Progress):
                        self._events.add(each.ranks, each.record, each.slots)
                self._flush_soon()
            case "late":
                assert told.answer is not None
                self.flush()
                self.text(f"late answer to '{told.answer.command}':")
                self.text(render.answer(told.answer))
            case "lost":
                self.flush()
                self.text(f"{render.brackets(told.ranks)} lost: {told.text}")
            case "joined":
                self.flush()
                self.text(f"{render.brackets(told.ranks)} back: {told.text}")
            case "output":
                self.output(told)
            case "ended":
                how = f"status {told.code}" if told.code >= 0 else f"signal {-told.code}"
                self._last_word = f"the job's launcher has ended ({how})"
                self._flush_soon()

    def _flush_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WINDOW_S, self.flush)

    def output(self, told: Told) -> None:
        """Show what the job has printed, by whole lines so that no prompt cuts them."""
        text = self._open_lines.pop(told.stream, "") + told.text
        whole, newline, rest = text.rpartition("\n")
        if newline:
            self._write(whole + newline)
        if rest:
            self._open_lines[told.stream] = rest

    def _end_lines(self) -> None:
        for rest in self._open_lines.values():
            self._write(rest + "\n")
        self._open_lines.clear()

    def close(self) -> None:
        """Show what is left."""
        self.flush()
        self._end_lines()

    def _write(self, text: str) -> None:
        out = self._out if self._out is not None else sys.stdout
        out.write(text)
        out.flush()


class StartProgress:
    """One line that tells how the start gets on: ``GDB 61/64``."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._live = out.isatty()
        self._done = {"held": 0, "gdb": 0, "attached": 0}
        self._has_line = False
        self.total = 0
        """Number of ranks, as soon as it is known."""

    def step(self, text: str) -> None:
        """Show a step of the start."""
        self._clear()
        self._out.write(text + "\n")
        self._out.flush()

    def told(self, told: Told) -> None:
        """Count the ranks that have got on."""
        for each in told.classes:
            if isinstance(each.record, Progress):
                self._done[each.record.stage] += len(each.ranks)
        if self._live:
            parts = [f"{name} {count}" for name, count in self._done.items() if count]
            self._out.write(f"\r\x1b[K{' · '.join(parts)}")
            self._out.flush()
            self._has_line = True

    def end(self) -> None:
        """Take the line away."""
        self._clear()

    def _clear(self) -> None:
        if self._has_line:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._has_line = False


def source_line(path: str, line: int) -> str | None:
    """Return a line of a source file on this host, None if it cannot be read."""
    if not path or not os.access(path, os.R_OK):
        return None
    text = linecache.getline(path, line).rstrip("\n")
    return text or None


def highlight(text: str) -> str:
    """Return numbered source lines with colours for a terminal."""
    # 0.1 s to import, and only wanted when somebody looks at source.
    from pygments import highlight as colour
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import CppLexer

    lines = []
    for line in text.split("\n"):
        number, tab, source = line.partition("\t")
        if tab and number.strip().isdigit():
            coloured = colour(source, CppLexer(), TerminalFormatter()).rstrip("\n")
            lines.append(f"{number}\t{coloured}")
        else:
            lines.append(line)
    return "\n".join(lines)
