"""Carry out typed lines: resolve, dispatch to a command or to GDB, keep focus and history.

The REPL and batch mode are both a shell with another way of reading and showing. What is to be
seen goes through a :class:`Display`; the shell prints nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from msgspec.structs import replace

from pgdb.errors import CommandError, InternalError, NotRecordedError, PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.saved import SavedAnswers, answer_size_bytes
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.session import Session
from pgdb.frontend.commands import breakpoints, run_control
from pgdb.frontend.commands.table import COMMANDS, Call, Outcome, Shown
from pgdb.frontend.show.json.json_shapes import AnswerLine, RanksLine
from pgdb.frontend.show.source_lines import source_line
from pgdb.frontend.show.text import render
from pgdb.frontend.store.recorder import ShellState
from pgdb.frontend.store.settings import Settings
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import FATAL_SIGNALS, Event, Exit, Stop

LOG = logging.getLogger(__name__)

HISTORY = 100
"""How many earlier answers ``expand`` can show."""
HISTORY_BYTES = 256 * 1024 * 1024
"""What they may take together; the last one is kept whatever its size."""

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_START, EXIT_NO_ANSWER, EXIT_SIGNAL = range(6)

ReadLine = Callable[[str], Awaitable[str | None]]


class Display(Protocol):
    """Where a shell shows things."""

    @property
    def width(self) -> int:
        """Columns that a line may have, 0 for no limit."""

    def command(self, focus: RankSet, line: str) -> None:
        """Show a command that was not typed at a prompt."""

    def answer(self, answer: Answer, text: str, *, is_source: bool) -> None:
        """Show the answer to a command; *text* is what a person reads of it."""

    def text(self, text: str) -> None:
        """Show a message."""

    def shown(self, shown: Shown) -> None:
        """Show what is more than an answer: a tree, a picture, a comparison."""

    def error(self, error: PgdbError, command: str) -> None:
        """Show an error: the command has not been carried out."""

    def flush(self) -> None:
        """Show what ranks have told up to now."""


class Quit(Exception):
    """The user wants to leave."""

    def __init__(self, *, kill: bool, why: str = "") -> None:
        super().__init__("quit")
        self.kill = kill
        self.why = why
        """Why there is nothing left to be done, where the user has not said to leave."""


class Shell:
    """Lines in, answers out."""

    def __init__(
        self,
        session: Session,
        display: Display,
        *,
        read_line: ReadLine,
        ask: Callable[[str], Awaitable[bool]] | None = None,
        settle_s: float | None = None,
        run_timeout_s: float | None = None,
    ) -> None:
        self.session = session
        self.display = display
        self.focus = session.set
        """The ranks that commands are for."""
        self.settle_s = settle_s
        """Give the prompt back when a rank has stopped and no other has for this long."""
        self.run_timeout_s = run_timeout_s
        """Longest time that a run command waits; None for no limit."""
        self.limit_s: float | None = None
        """Longest time for all answers of one command, where the user has set one."""
        self.status = EXIT_OK
        """The worst that has happened so far, as an exit status."""
        self.in_foreground = RankSet()
        """The ranks that a run command in the foreground waits for."""
        self._read_line = read_line
        self._ask = ask
        self.saved = SavedAnswers()
        """Answers that the user keeps under names."""
        self._answers: OrderedDict[int, Answer] = OrderedDict()
        self._sizes_bytes: dict[int, int] = {}
        self._last_number = 0
        self._is_source = False
        self.without_answer = ""
        """The last command, if what it has shown is nothing that ``expand`` unfolds."""
        self._most_answers = HISTORY

    @property
    def kept(self) -> ShellState:
        """What a recording is to have of this shell."""
        return ShellState(focus=self.focus, history=self.answers, saved=tuple(self.saved))

    def take_over(self, kept: ShellState) -> None:
        """Begin with what an earlier shell had kept."""
        self.focus = kept.focus or self.focus
        for each in kept.saved:
            with contextlib.suppress(PgdbError):  # a file can hold names that are none
                self.saved.put(each)
        for number, answer in kept.history:
            self._last_number = number
            self._keep(number, answer)
        # What is asked anew does not push them out at once.
        self._most_answers = HISTORY + len(self._answers)

    # -- lines -------------------------------------------------------------------------------

    async def run_line(self, line: str) -> None:
        """Carry out one line and show what comes of it.

        :raises Quit: if it says to leave.
        """
        line = line.strip()
        if not line or line.startswith("#"):
            return
        try:
            await self._run_line(line)
        except PgdbError as error:
            self._tell_error(error, line)
        except (Quit, BrokenPipeError):
            raise
        except Exception as error:
            # It ends this command, not the session, and not a job that was launched with it.
            # Its arguments are not for a log (docs/reference/recording.md).
            LOG.exception("'%s' met a bug", line.split()[0])
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self._tell_error(
                InternalError(
                    f"a bug of PGDB's: {' '.join(what.split())}; the session goes on "
                    "(--log FILE and 'pgdb report-bug FILE' make a report of it)"
                ),
                line,
            )

    def _tell_error(self, error: PgdbError, line: str) -> None:
        self.worsen(EXIT_FAILED)
        self.display.flush()
        self.display.error(error, line)

    async def _run_line(self, line: str) -> None:
        self._is_source = False
        gdb_commands.check_text(line)
        outcome = await self.dispatch(line, self.focus)
        self.display.flush()
        self._show(outcome)
        if isinstance(outcome, Shown) and outcome.answer is None:
            # What 'expand' shows, and 'ranks', is about the answer before it.
            if not isinstance(outcome.line, AnswerLine | RanksLine):
                self.without_answer = line

    async def dispatch(self, line: str, ranks: RankSet) -> Outcome:
        """Carry out one line for *ranks*, and return what came of it."""
        # What is carried out inside another line is in that one's time.
        limit_s = None if deadline.is_given() else self.limit_s
        with deadline.within(limit_s, for_stops=False):
            return await self._dispatch(line, ranks)

    async def _dispatch(self, line: str, ranks: RankSet) -> Outcome:
        call = self._call(line, ranks)
        try:
            return await self._carry_out(call, ranks)
        except NotRecordedError as error:
            # A command can ask the ranks for what has other words: 'tree --full' a backtrace.
            raise error.of(call.line) from None

    async def _carry_out(self, call: Call, ranks: RankSet) -> Outcome:
        command = COMMANDS.find(call.word)
        if command is not None:
            return await command.handler(call)
        kind = gdb_commands.kind_of(call.word, call.line)
        if kind is gdb_commands.Kind.REFUSED:
            raise UsageError(gdb_commands.why_refused(call.word))
        if kind is gdb_commands.Kind.BREAKPOINT:
            return await breakpoints.insert(call)
        if kind is gdb_commands.Kind.RUN:
            return await run_control.console_run(call)
        view = self.session.ranks(ranks)
        if kind is gdb_commands.Kind.MULTI_LINE:
            block = await self.read_block(call.word)
            return await view.script([call.line, *block, "end"])
        return await view.execute_plain(call.line)

    async def read_block(self, word: str) -> list[str]:
        """Read the lines of a multi-line command, up to the ``end`` that belongs to it."""
        lines: list[str] = []
        depth = 1
        while True:
            with deadline.paused():
                line = await self._read_line(">")
            if line is None:
                raise UsageError(f"'{word}' is not finished; its last line must be 'end'")
            if line.strip() == "end":
                depth -= 1
                if not depth:
                    return lines
            elif gdb_commands.opens_block(line):
                depth += 1
            lines.append(line.rstrip("\n"))

    def _call(self, line: str, ranks: RankSet) -> Call:
        line = line.strip()
        typed = gdb_commands.first_word(line)
        if line.startswith("@"):
            raise UsageError(
                f"{line!r} is no command; 'focus {line.split()[0]}' selects those ranks, 'proc "
                f"{line.split()[0]} COMMAND' asks them"
            )
        if not typed:
            raise UsageError(f"{line!r} is no command")
        word = self._resolve(typed)
        rest = line[len(typed) :]
        letters = ""
        if rest.startswith("/"):
            letters, _, rest = rest[1:].partition(" ")
        argument = rest.strip()
        # What follows these is a command of its own, which may end in & itself.
        is_whole = word not in ("proc", "timeout")
        background = is_whole and (argument == "&" or argument.endswith(" &"))
        if background:
            argument = argument.removesuffix("&").strip()
        slash = f"/{letters}" if letters else ""
        whole = f"{word}{slash} {argument}".rstrip()
        return Call(
            shell=self,
            ranks=ranks,
            word=word,
            letters=letters,
            argument=argument,
            line=whole,
            background=background,
        )

    def _resolve(self, typed: str) -> str:
        """Return the full word of what was typed: ours first, then as GDB does it."""
        own = COMMANDS.find(typed)
        if own is not None:
            return own.word
        if typed in gdb_commands.KINDS or typed in gdb_commands.ALIASES:
            return gdb_commands.resolve(typed)
        words = {*COMMANDS.starting_with(typed)}
        words |= {word for word in gdb_commands.KINDS if word.startswith(typed)}
        if len(words) == 1:
            return words.pop()
        if words and typed.isalpha():
            raise UsageError(f"'{typed}' is ambiguous: {', '.join(sorted(words))}")
        return typed

    # -- what commands need ------------------------------------------------------------------

    async def run_ranks(
        self, ranks: RankSet, start: Callable[[], Awaitable[Answer]], background: bool
    ) -> Answer:
        """Set ranks running by *start*, and wait for them by the rules of this shell."""
        if background:
            return self.without_stops(await start())
        # Before they are started: an interrupt can come at any moment from here on.
        with self.foreground(ranks):
            started = await start()
            answer = await self.session.finish_run(
                started, timeout_s=self.run_timeout_s, settle_s=self.settle_s
            )
        return self.without_stops(answer)

    @contextlib.contextmanager
    def limited(self, timeout_s: float) -> Iterator[None]:
        """Have a command wait no longer than *timeout_s*, for all answers and stops together."""
        before, self.run_timeout_s = self.run_timeout_s, timeout_s
        try:
            with deadline.within(timeout_s):
                yield
        finally:
            self.run_timeout_s = before

    @contextlib.contextmanager
    def foreground(self, ranks: RankSet) -> Iterator[None]:
        """Have Ctrl-C and typed lines go to *ranks* for a while."""
        self.in_foreground = ranks
        try:
            yield
        finally:
            self.in_foreground = RankSet()

    def without_stops(self, answer: Answer) -> Answer:
        """Return the answer to a run command as it is shown: stops are told as they come."""
        return replace(answer, told=True)

    def apply(self, settings: Settings) -> None:
        """Change settings."""
        self.session.options = settings.change(self.session.options)
        if settings.settle_s is not None:
            self.settle_s = settings.settle_s
        if settings.timeout_s is not None:
            self.limit_s = settings.timeout_s

    def set_focus(self, ranks: RankSet) -> None:
        """Select the ranks that commands are for."""
        self.focus = ranks

    def say(self, text: str) -> None:
        """Show a message."""
        self.display.flush()
        self.display.text(text)

    async def confirm(self, question: str) -> bool:
        """Ask the user; where nobody can answer, the answer is yes."""
        with deadline.paused():
            return await self._ask(question) if self._ask is not None else True

    def quit(self, *, kill: bool, why: str = "") -> None:
        """Leave the session; *why* it is over, where the user has not said to leave.

        :raises Quit: always.
        """
        raise Quit(kill=kill, why=why)

    def next_is_source(self) -> None:
        """Note that the answer to the command that is being carried out is source text."""
        self._is_source = True

    @property
    def answers(self) -> tuple[tuple[int, Answer], ...]:
        """The answers that are kept, by number, the oldest first."""
        return tuple(self._answers.items())

    def recall(self, number: int) -> Answer:
        """Return an earlier answer, the last one for 0.

        :raises CommandError: if there is none of that number any longer.
        """
        if not self._answers:
            raise CommandError("there is no earlier answer")
        if not number:
            return next(reversed(self._answers.values()))
        if number not in self._answers:
            raise CommandError(
                f"there is no answer {number}; the kept ones are "
                f"{next(iter(self._answers))} to {self._last_number}"
            )
        return self._answers[number]

    def expand(self, answer: Answer) -> str:
        """Return the whole text of an answer."""
        return render.answer(replace(answer, told=False), whole=True)

    def show_start(self, answer: Answer) -> None:
        """Show which ranks could not be taken hold of at the start."""
        self._show(self.without_stops(answer))

    # -- showing -----------------------------------------------------------------------------

    def _show(self, outcome: Outcome) -> None:
        if isinstance(outcome, Answer):
            number = self._remember(outcome)
            text = render.answer(
                outcome,
                number=number,
                read_source=source_line,
                width=self.display.width,
                absent=self.session.state.absent,
            )
            self.display.answer(outcome, text, is_source=self._is_source)
        elif isinstance(outcome, Shown):
            if outcome.answer is not None:
                self._remember(outcome.answer)
            if outcome.sets:
                self.session.numbered_sets = outcome.sets
            if outcome.failed:
                self.worsen(EXIT_FAILED)
            self.display.shown(outcome)
        elif outcome:
            self.display.text(outcome)

    def _remember(self, answer: Answer) -> int:
        """Keep an answer for ``expand`` and ``@1``; return its number."""
        self._judge(answer)
        self.without_answer = ""
        self._last_number += 1
        self._keep(self._last_number, answer)
        if answer.classes:
            self.session.numbered_sets = render.numbered_sets(answer)
        return self._last_number

    def _keep(self, number: int, answer: Answer) -> None:
        self._answers[number] = answer
        self._sizes_bytes[number] = answer_size_bytes(answer)
        while len(self._answers) > self._most_answers or (
            len(self._answers) > 1 and sum(self._sizes_bytes.values()) > HISTORY_BYTES
        ):
            oldest, _ = self._answers.popitem(last=False)
            del self._sizes_bytes[oldest]

    def _judge(self, answer: Answer) -> None:
        if answer.errors:
            self.worsen(EXIT_FAILED)
        if answer.missing.late or answer.missing.lost:
            self.worsen(EXIT_NO_ANSWER)
        if answer.missing.running and not answer.may_run:
            self.worsen(EXIT_NO_ANSWER)

    def judge_events(self, classes: tuple[EquivalenceClass[Event], ...]) -> None:
        """Take into the exit status what ranks have told."""
        for each in classes:
            if each.ranks <= self.session.killed:
                continue
            match each.record:
                case Stop(signal=name) if name in FATAL_SIGNALS:
                    self.worsen(EXIT_SIGNAL)
                case Exit(signal=name) if name:
                    self.worsen(EXIT_SIGNAL)

    def worsen(self, status: int) -> None:
        """Let the exit status become *status*, unless it is worse already."""
        if _SEVERITY.index(status) > _SEVERITY.index(self.status):
            self.status = status


_SEVERITY = (EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NO_ANSWER, EXIT_SIGNAL, EXIT_START)
