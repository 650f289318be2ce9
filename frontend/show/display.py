"""Text output of a session: events merged over a short window, answers, output of the job.

The REPL and text batch mode share it; :mod:`pgdb.frontend.ui.batch` has the JSON display.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, TextIO

from pgdb.controls import OutputFilter, harmless
from pgdb.errors import PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.interface_options import InterfaceOptions
from pgdb.frontend.api.notifications import (
    BarrierNews,
    JobEnded,
    JobOutput,
    LateAnswer,
    Notification,
    RankEvents,
    RanksBack,
    RanksLost,
    SessionNotice,
    Starting,
    WorldJoined,
)
from pgdb.frontend.show.shown import Shown, Unanswered, Waiting, progress_text
from pgdb.frontend.show.source_lines import is_missing, source_line
from pgdb.frontend.show.text import event_text, layout, meeting_text, places_text, render
from pgdb.frontend.show.text.source_text import without_signs
from pgdb.frontend.show.transcript import Transcript
from pgdb.overlay.event_buffer import EventBuffer
from pgdb.ranks import RankSet
from pgdb.records import Progress

if TYPE_CHECKING:
    from pgdb.frontend.show.text.palette import Palette

_MOST_OF_A_LINE = 1 << 16
_DUMB = ("dumb", "", None)
WINDOW_S = 0.15
"""Time without a further stop after which the stops are shown as one message, in seconds."""
LONGEST_WINDOW_S = 1.0
"""Time after which stops are shown although further ones come, in seconds."""
QUIET_S = 0.3
"""Time without output after which an unfinished line of the job is shown, in seconds."""
QUIET_AT_PROMPT_S = 1.0
"""The same while the prompt is on the screen, where the unfinished line has to be ended."""


class Pages(Protocol):
    """Pager of text."""

    def put(self, text: str, *, is_answer: bool) -> None:
        """Show text now or later; *is_answer* is false for notifications and output of the job."""


class TextDisplay:
    """Text on a terminal or in a file."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self.transcript = Transcript()
        """Transcript, which gets a copy of all output."""
        # Read before prompt_toolkit replaces standard output.
        stream = out if out is not None else sys.stdout
        self._is_terminal = stream.isatty()
        self._palette = _palette() if self._is_terminal else None
        self.diverted: tuple[type, ...] = ()
        """The notifications that another display shows meanwhile."""
        self._events = EventBuffer()
        self._timer: asyncio.TimerHandle | None = None
        self._window_end_s = 0.0  # of the event loop's clock; counts while there is a timer
        self._open_lines: dict[str, str] = {}
        self._filters: dict[str, OutputFilter] = {}  # of the job's output, at a terminal
        self._last_word = ""
        self._unfinished = ""
        self._quiet: asyncio.TimerHandle | None = None
        self._is_prompting = False
        self.interface: Callable[[], InterfaceOptions] = InterfaceOptions
        """Function that returns the settings of the user interface."""
        self.pages: Pages | None = None
        """Pager of all output; None to show it at once."""
        self.prompt: Callable[[], str] = str
        """Function that returns the line that the user types on, for terminals that cannot draw."""
        self._is_notice = False
        self._has_progress = False
        self._held: list[tuple[str, str]] | None = None

    # -- Display -----------------------------------------------------------------------------

    @property
    def width(self) -> int:
        """Columns of a line: those that are set, else of the terminal; 0 in a file."""
        if (wanted := self.interface().width) >= 0:
            return wanted
        return shutil.get_terminal_size().columns if self._is_terminal else 0

    @property
    def has_colours(self) -> bool:
        """Whether the output has colours."""
        return self._colours is not None

    @property
    def _colours(self) -> Palette | None:
        """The colours of the terminal; None without any, or if the user wants none."""
        return self._palette if self.interface().style else None

    @property
    def can_draw(self) -> bool:
        """Whether the output is a terminal with a cursor that can be moved."""
        return self._is_terminal and os.environ.get("TERM") not in _DUMB

    @property
    def owns_output(self) -> bool:
        """Whether no other program may write to standard output."""
        return False

    def answer(self, answer: Answer, text: str, *, is_source: bool) -> None:
        """Show the answer to a command."""
        del answer
        if text and is_source and (colours := self._colours) is not None:
            self._write(colours.source(harmless(text)) + "\n")
        elif text:
            self.text(text)

    def command(self, focus: RankSet, line: str) -> None:
        """Do nothing: the terminal shows a typed command already."""

    def text(self, text: str) -> None:
        """Show a message."""
        text = harmless(text)
        if (colours := self._colours) is not None:
            text = colours.paint(text)
        self._write(text + "\n")

    def shown(self, shown: Shown) -> None:
        """Show a tree, a picture, a comparison."""
        self.text(shown.text)

    def error(self, error: PgdbError, command: str) -> None:
        """Show an error."""
        del command
        text = harmless(str(error))
        colours = self._colours
        self._write((colours.error(text) if colours is not None else text) + "\n")

    def flush(self) -> None:
        """Show the notifications that are kept back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        with self._noticing():
            self._flush()

    def _flush(self) -> None:
        for classes in self._events.take():
            if text := event_text.events(classes, source_line, self.width, is_missing):
                self.text(text)
        if self._last_word:
            # Exits of ranks can arrive a moment after the launcher's.
            self._end_lines()
            self.text(self._last_word)
            self._last_word = ""

    def waiting(self, progress: Waiting | Unanswered | None) -> None:
        """Show progress on the line below the cursor, where the user may type input for the job."""
        if not self.can_draw or self._is_prompting or self._held is not None:
            return
        if progress is None:
            self._clear_progress()
            return
        text = progress_text(progress)[: max(self.width, 20) - 1]
        # Index, and not a line feed: it scrolls at the last line, and keeps the column.
        self._draw(f"\x1b[J\x1bD\x1b[A\x1b7\x1b[B\r{text}\x1b8")
        self._has_progress = True

    def _clear_progress(self) -> None:
        if self._has_progress:
            self._has_progress = False
            self._draw("\x1b[J")

    def _draw(self, codes: str) -> None:
        out = self._out if self._out is not None else sys.stdout
        out.write(codes)
        out.flush()

    # -- notifications -----------------------------------------------------------------------

    def notify(self, notification: Notification) -> None:
        """Show a notification."""
        if isinstance(notification, self.diverted):
            return
        with self._noticing():
            self._notify(notification)

    def _notify(self, notification: Notification) -> None:
        match notification:
            case RankEvents(classes=classes):
                for each in classes:
                    if not isinstance(each.record, Progress):
                        self._events.add(each.ranks, each.record, each.slots)
                self._flush_soon()
            case LateAnswer(answer=answer):
                self.flush()
                text = render.answer(answer, width=self.width)
                if text:
                    self.text(f"late answer to '{answer.command}':\n{text}")
                else:
                    self.text(f"{layout.brackets(answer.ranks)} '{answer.command}' is done by now")
            case RanksLost(ranks=ranks, text=text):
                self.flush()
                self.text(f"{layout.brackets(ranks)} lost: {text}")
            case RanksBack(ranks=ranks, text=text):
                self.flush()
                self.text(f"{layout.brackets(ranks)} back: {text}")
            case WorldJoined(world=world):
                self.flush()
                self.text(f"{layout.brackets(world.ranks)} {places_text.joined(world)}")
            case BarrierNews():
                self.flush()
                self.text(meeting_text.barrier_news(notification))
            case SessionNotice(text=text):
                self.flush()
                self.text(f"note: {text}")
            case JobOutput():
                self.output(notification)
            case JobEnded(code=code):
                how = f"status {code}" if code >= 0 else f"signal {-code}"
                self._last_word = f"the job's launcher has ended ({how})"
                self._flush_soon()
            case Starting():
                pass

    @contextlib.contextmanager
    def _noticing(self) -> Iterator[None]:
        """Mark the text written inside as no answer to a command."""
        before, self._is_notice = self._is_notice, True
        try:
            yield
        finally:
            self._is_notice = before

    def _flush_soon(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._window_end_s = loop.time() + LONGEST_WINDOW_S
        else:
            self._timer.cancel()
        at_s = min(loop.time() + WINDOW_S, self._window_end_s)
        self._timer = loop.call_at(at_s, self.flush)

    def output(self, output: JobOutput) -> None:
        """Show output of the job, by whole lines so that no prompt cuts them."""
        came = output.text
        if self._is_terminal:
            came = self._filters.setdefault(output.stream, OutputFilter()).feed(output.data)
        text = self._open_lines.pop(output.stream, "") + came
        whole, newline, rest = text.rpartition("\n")
        if newline:
            self._write(whole + newline, output.stream)
        if len(rest) > _MOST_OF_A_LINE:
            # The line may never end, and each piece would copy the whole of it.
            self._write(rest + "\n" * self._is_terminal, output.stream)
        elif rest:
            self._open_lines[output.stream] = rest
        self._watch_open_lines()

    def _watch_open_lines(self) -> None:
        """Show unfinished lines once no output comes: the job may have put a question."""
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None
        if not self._open_lines or not self._is_terminal:
            return
        delay_s = QUIET_AT_PROMPT_S if self._is_prompting else QUIET_S
        with contextlib.suppress(RuntimeError):  # no event loop, so no job that waits
            self._quiet = asyncio.get_running_loop().call_later(delay_s, self._show_open_lines)

    def _show_open_lines(self) -> None:
        self._quiet = None
        open_lines, self._open_lines = self._open_lines, {}
        for stream, rest in open_lines.items():
            # A prompt cannot stand behind an unfinished line: it is drawn from the first column.
            self._write(rest + "\n" * self._is_prompting, stream)

    @contextlib.contextmanager
    def prompting(self) -> Iterator[None]:
        """Keep the first column for a prompt that is on the screen meanwhile."""
        if self._unfinished:
            self._write("")
        self._is_prompting = True
        try:
            yield
        finally:
            self._is_prompting = False

    @contextlib.contextmanager
    def held_back(self) -> Iterator[None]:
        """Keep all output back while another program has the terminal."""
        self._held = []
        try:
            yield
        finally:
            held, self._held = self._held, None
            for text, stream in held:
                self._write(text, stream)

    def line_was_typed(self) -> None:
        """Take note that the user has ended the line on the screen, with input for the job."""
        self._unfinished = ""

    def _end_lines(self) -> None:
        for stream, kept in self._filters.items():
            if text := kept.end():
                self._open_lines[stream] = self._open_lines.get(stream, "") + text
        for stream, rest in self._open_lines.items():
            self._write(rest + "\n", stream)
        self._open_lines.clear()
        if self._unfinished:
            self._write("")

    def close(self) -> None:
        """Show the output that is kept back."""
        self.flush()
        self._end_lines()

    def _write(self, text: str, stream: str = "") -> None:
        """Write text, on a line of its own unless it goes on with an unfinished line of *stream*.

        *stream* is that of the job from which the text comes; empty for a text of PGDB's own.
        """
        if self._held is not None:
            self._held.append((text, stream))
            return
        self._clear_progress()
        if self._unfinished and stream != self._unfinished:
            text = "\n" + text
        if self._is_terminal:
            self._unfinished = "" if text.endswith("\n") else stream
        self.transcript.write(text)
        if self.transcript.is_redirected and not stream:
            return
        if self.pages is not None:
            self.pages.put(text, is_answer=not stream and not self._is_notice)
        else:
            self.emit(text)

    def emit(self, text: str) -> None:
        """Write text to the screen or the file."""
        if self._is_prompting and not self.can_draw:
            # Nobody draws the prompt again below it.
            text = f"\n{text}{self.prompt()}"
        out = self._out if self._out is not None else sys.stdout
        out.write(without_signs(text, getattr(out, "encoding", None) or "utf-8"))
        out.flush()


class StartProgress:
    """Progress of a start: ``found 64 ranks on 4 hosts · aggregators 4/4 · GDB 61/64``.

    On a terminal that is one changing line. Notes, and with *verbose* all steps, have permanent
    lines.
    """

    def __init__(self, out: TextIO, *, verbose: bool = False) -> None:
        self._out = out
        self._live = out.isatty() and os.environ.get("TERM") not in _DUMB
        self._verbose = verbose
        self._begun_s = time.monotonic()
        self._found = ""
        self._aggregators = ""
        self._hosts: Mapping[str, RankSet] = {}
        self._done = {"held": 0, "gdb": 0}
        self._attached = RankSet()
        self._has_line = False

    def step(self, text: str) -> None:
        """Show a step of the start; a text that begins with ``note:`` gets a line of its own."""
        if text.startswith("note:"):
            self._write(text)
        elif self._verbose:
            self._write(f"{time.monotonic() - self._begun_s:6.2f} s  {text}")
        elif text.startswith("found ") or " held on " in text:
            # ``--verbose`` shows the way they were found.
            self._found = text.partition(" (")[0]
            self._refresh()

    def notify(self, notification: Notification) -> None:
        """Count the aggregators and ranks that are ready."""
        match notification:
            case Starting(text=text, hosts=hosts):
                self._aggregators = text or self._aggregators
                self._hosts = hosts or self._hosts
            case RankEvents(classes=classes):
                for each in classes:
                    if isinstance(each.record, Progress):
                        if each.record.stage == "attached":
                            self._attached |= each.ranks
                        else:
                            self._done[each.record.stage] += len(each.ranks)
            case _:
                pass
        self._refresh()

    async def keep_time(self) -> None:
        """Update the time every second, until the task is cancelled."""
        while True:
            await asyncio.sleep(1.0)
            if self._has_line:
                self._refresh()

    def end(self) -> None:
        """Remove the line."""
        self._clear()

    def _refresh(self) -> None:
        if not self._live:
            return
        elapsed = f"{time.monotonic() - self._begun_s:.0f} s"
        parts = [part for part in (self._found, self._aggregators, self._ranks(), elapsed) if part]
        width = shutil.get_terminal_size().columns - 1
        self._out.write(f"\r\x1b[K{harmless(' · '.join(parts))[:width]}")
        self._out.flush()
        self._has_line = True

    def _ranks(self) -> str:
        everybody = RankSet.union(self._hosts.values())
        if not everybody:
            return ""
        if not self._attached:
            return f"GDB {self._done['gdb']}/{len(everybody)}"
        text = f"attached {len(self._attached)}/{len(everybody)}"
        left = everybody - self._attached
        if 0 < len(left) <= max(1, len(everybody) // 8):
            rank = left.first
            host = next((host for host, ranks in self._hosts.items() if rank in ranks), "")
            text += f", last: rank {rank} on {host}"
        return text

    def _write(self, text: str) -> None:
        self._clear()
        self._out.write(harmless(text) + "\n")
        self._out.flush()

    def _clear(self) -> None:
        if self._has_line:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._has_line = False


def _palette() -> Palette | None:
    """Return the colours of this terminal; None without colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in _DUMB:
        return None
    from pgdb.frontend.show.text.palette import Palette

    return Palette()
