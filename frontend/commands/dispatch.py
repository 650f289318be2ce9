"""Resolve typed lines and dispatch them to PGDB's commands or to GDB.

The REPL and batch mode each have a dispatcher, with other ways to read lines and to show results.
A dispatcher prints nothing: all output goes through its :class:`Display`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.errors import CommandError, InternalError, NotRecordedError, PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import exit_status, gdb_commands
from pgdb.frontend.api.exit_status import EXIT_FAILED, EXIT_NO_ANSWER, EXIT_OK
from pgdb.frontend.api.exit_status import Quit as Quit
from pgdb.frontend.api.gdb_blocks import Nesting, not_finished
from pgdb.frontend.api.interfaces import acting
from pgdb.frontend.commands import (
    blocks,
    bodies,
    breakpoints,
    interface_settings,
    old_names,
    print_settings,
    run_control,
    written,
)
from pgdb.frontend.commands.output import Display
from pgdb.frontend.commands.questions import NOT_DONE, question_before
from pgdb.frontend.commands.table import COMMANDS, Call, Outcome, Shown
from pgdb.frontend.commands.user_commands import UserCommand
from pgdb.frontend.commands.whole_arguments import shows_more
from pgdb.frontend.commands.workspace import Workspace
from pgdb.frontend.show.json.json_shapes import AnswerLine, RanksLine, TreeLine
from pgdb.frontend.show.source_lines import source_line
from pgdb.frontend.show.text import render
from pgdb.frontend.show.transcript import Transcript
from pgdb.frontend.store.settings import Settings
from pgdb.frontend.system import deadline
from pgdb.frontend.system.host_commands import ignoring_interrupts
from pgdb.frontend.system.workers import beside_if, with_file
from pgdb.merge.classes import EquivalenceClass
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Event

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

LOG = logging.getLogger(__name__)
_MOST_LINES = 2000

_RANKS = pattern(r"\d[\d,-]*(?:\s|\Z)")
# The format of "p/x", "x/-2i$pc", "p/d-1"; "cd/tmp/x" and "shell/bin/ls" have none.
_LETTERS = pattern(r"/(-?\d*[A-Za-z]*)(?![A-Za-z/])")

ReadLine = Callable[[str], Awaitable[str | None]]
Relaunch = Callable[[tuple[str, ...] | None], Awaitable[None]]


class Dispatcher:
    """Executor of typed lines, which also shows their results."""

    def __init__(
        self,
        workspace: Workspace,
        display: Display,
        *,
        read_line: ReadLine,
        ask: Callable[[str], Awaitable[bool]] | None = None,
        lend_terminal: Callable[[], AbstractContextManager[None]] = ignoring_interrupts,
    ) -> None:
        self.workspace = workspace
        self.display = display
        self.relaunch: Relaunch | None = None
        """Function that launches the job again, with new arguments of the program or None."""
        self.program_arguments: Callable[[], Awaitable[tuple[str, ...]]] | None = None
        """Function that returns the arguments of the program of a launched job."""
        self.status = EXIT_OK
        """The worst result so far, as an exit status."""
        self.chosen_status: int | None = None
        """The exit status that the user has given to ``quit``."""
        self.in_foreground = RankSet()
        """The ranks that a run command in the foreground waits for."""
        self.takes_input = False
        """Whether typed lines are input for the job."""
        self._read_line = read_line
        self._ask = ask
        self.terminal_lent = lend_terminal
        """Function that makes the context in which another program has the terminal."""
        self.lines: deque[str] = deque(maxlen=_MOST_LINES)
        """The lines that were carried out, the last one last."""
        self.history: Callable[[], list[str]] = lambda: list(self.lines)
        """Function that returns the lines typed in this session and before, the last one last."""
        self._is_source = False
        self._shown: Outcome = None
        """The outcome that was shown before the hook behind its command."""
        self.was_interrupted = False
        """Whether the user has typed Ctrl-C since the line that is carried out."""
        self.files_open = 0
        """Number of files and bodies that are being carried out, one inside the other."""

    @property
    def session(self) -> Session:
        """The session, which a restart replaces."""
        return self.workspace.session

    # -- lines -------------------------------------------------------------------------------

    async def run_line(self, line: str) -> None:
        """Carry out one line and show its result.

        :raises Quit: if the line ends the session.
        """
        line = (await self.read_whole(line) or "").strip()
        if not line or line.startswith("#"):
            return
        self.lines.append(line)
        self.was_interrupted = False
        begun_s = time.monotonic()
        try:
            await self._run_line(line)
            if self.workspace.interface.timings:
                self.say(f"elapsed: {time.monotonic() - begun_s:.3f} s")
        except PgdbError as error:
            self.show_error(error, line)
        except (Quit, BrokenPipeError):
            raise
        except Exception as error:
            # The bug ends this command, not the session, and not a job that was launched with it.
            # The log gets no arguments of the command (docs/reference/recording.md).
            LOG.exception("'%s' met a bug", line.split()[0])
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            self.show_error(
                InternalError(
                    f"a bug of PGDB's: {' '.join(what.split())}; the session goes on "
                    "(--log FILE and 'pgdb report-bug FILE' make a report of it)"
                ),
                line,
            )

    @property
    def transcript(self) -> Transcript:
        """The copy of all output that ``set logging`` makes."""
        return self.display.transcript

    @property
    def last_line(self) -> str:
        """The last line that was carried out, but for ``pipe`` and ``with``; empty if none."""
        words = ("pipe", "|", "with", "w")
        return next(
            (each for each in reversed(self.lines) if gdb_commands.first_word(each) not in words),
            "",
        )

    def show_error(self, error: PgdbError, line: str) -> None:
        """Show the error of a command that was not carried out."""
        self.worsen(EXIT_FAILED)
        self.display.flush()
        self.display.error(error, line)

    async def _run_line(self, line: str) -> None:
        gdb_commands.check_text(line)
        await self.run_on(line, self.workspace.focus)

    async def run_on(self, line: str, ranks: RankSet) -> Outcome:
        """Carry out one line for *ranks*, and show and return its outcome."""
        self._is_source = False
        if self.workspace.interface.trace_commands:
            self.say(f"{'+' * (self.files_open + 1)}{line}")
        outcome = await self.dispatch(line, ranks)
        self.display.flush()
        await self.show(outcome)
        if isinstance(outcome, Shown) and outcome.answer is None:
            # The output of 'expand' and 'ranks' is about the answer before it.
            if not isinstance(outcome.line, AnswerLine | RanksLine):
                self.workspace.without_answer = line
        return outcome

    @contextlib.contextmanager
    def reading_from(self, read_line: ReadLine, *, is_new: bool = True) -> Iterator[None]:
        """Read the further lines of commands with *read_line*, of a file or a body that *is_new*
        or is open already."""
        before, self._read_line = self._read_line, read_line
        self.files_open += is_new
        try:
            yield
        finally:
            self._read_line = before
            self.files_open -= is_new

    async def dispatch(self, line: str, ranks: RankSet) -> Outcome:
        """Carry out one line for *ranks*, and return its outcome."""
        # A line inside another line shares the deadline of that line.
        limit_s = None if deadline.is_given() else self.workspace.limit_s
        with deadline.within(limit_s, for_stops=False), acting(self.workspace):
            return await self._dispatch(line, ranks)

    async def _dispatch(self, line: str, ranks: RankSet) -> Outcome:
        user = self.workspace.user
        if (word := gdb_commands.first_word(line)) in user.known:
            return await self._with_hooks(word, ranks, lambda: self._in_gdb(line, ranks))
        line = gdb_commands.with_command(user.expanded(line, self.has), self.last_line)
        if (found := user.find(line, self.has)) is not None:
            return await self._with_hooks(
                found[0].name, ranks, lambda: self._call_user(*found, line, ranks)
            )
        *before, line = old_names.translated(print_settings.as_option(line))
        for each in before:
            if isinstance(outcome := await self.run_on(each, ranks), Answer) and outcome.errors:
                return None
        call = self._call(line, ranks)
        try:
            return await self._with_hooks(
                call.hooked, ranks, lambda: self._carry_out_and_wait(call)
            )
        except NotRecordedError as error:
            # A command can ask the ranks for another one: 'tree --full' for a backtrace.
            raise error.of(call.line) from None

    async def _with_hooks(
        self, word: str, ranks: RankSet, carry_out: Callable[[], Awaitable[Outcome]]
    ) -> Outcome:
        """Carry out a command between its hooks, as GDB does."""
        await blocks.run_hook(self, word, ranks, after=False)
        outcome = await carry_out()
        if self.workspace.user.hook(word, after=True) is not None:
            await self.show(outcome)
            self._shown = outcome
            if isinstance(outcome, Answer):
                ranks -= RankSet.union(each.ranks for each in outcome.errors)
            if ranks:
                await blocks.run_hook(self, word, ranks, after=True)
                self._shown = outcome
        return outcome

    async def _call_user(
        self, command: UserCommand, argument: str, line: str, ranks: RankSet
    ) -> Outcome:
        if not bodies.needs_front_end(self.workspace.user, command):
            return await self._in_gdb(line, ranks)
        await blocks.call_user(self, command, argument, ranks)
        return None

    @staticmethod
    def has(word: str) -> bool:
        """Return whether PGDB has a command of exactly this word."""
        return COMMANDS.find(word) is not None

    def check_interrupt(self, title: str, number: int) -> None:
        """End a file or a body of commands after Ctrl-C.

        :raises CommandError: if the user has typed Ctrl-C since the line was typed.
        """
        if self.was_interrupted:
            where = f" before its line {number}" if number else ""
            raise CommandError(f"'{title}' ended{where} (Ctrl-C)")

    async def _in_gdb(self, line: str, ranks: RankSet) -> Outcome:
        """Carry out a user-defined command that the GDBs hold."""
        answer = await blocks.carry_out_in_gdb(self, line.strip(), ranks)
        if not answer.runs_unasked:
            return answer
        return await run_control.finish_unasked(self._call(line, ranks), answer)

    async def _carry_out_and_wait(self, call: Call) -> Outcome:
        """Carry out a command, and wait for ranks that code of the user's has set running."""
        outcome = await self._carry_out(call)
        if not isinstance(outcome, Answer) or not outcome.runs_unasked:
            return outcome
        return await run_control.finish_unasked(call, outcome)

    async def _carry_out(self, call: Call) -> Outcome:
        blocks.check_inner(call.word, call.line)
        if call.command is not None:
            return await call.command.handler(call)
        if call.word == "with":
            outcome = await interface_settings.with_own(call)
            if not isinstance(outcome, interface_settings.NotOwn):
                return outcome
        kind = gdb_commands.kind_of(call.word, call.line)
        if kind is gdb_commands.Kind.REFUSED:
            raise UsageError(gdb_commands.why_refused(call.word, call.line))
        if kind is gdb_commands.Kind.BREAKPOINT:
            return await breakpoints.insert(call)
        if kind is gdb_commands.Kind.RUN:
            return await run_control.console_run(call)
        question = question_before(call)
        if question and not await self.confirm_typed(question):
            return NOT_DONE
        if kind is gdb_commands.Kind.MULTI_LINE:
            return await blocks.carry_out(call)
        if call.word in blocks.OWN:
            return await blocks.OWN[call.word](call)
        return await written.write(call)

    async def read_block(self, line: str) -> list[str]:
        """Read the lines of a multi-line command, up to the ``end`` that belongs to it."""
        lines: list[str] = []
        nesting = Nesting(gdb_commands.innermost(line))
        while True:
            with deadline.paused():
                read = await self.read_whole(await self._read_line(">"))
            if read is None:
                raise not_finished(line)
            read = read.rstrip("\n")
            if nesting.take(read):
                return lines
            lines.append(read)

    async def read_whole(self, line: str | None) -> str | None:
        """Return a line with those that follow it because it ends with a backslash."""
        while line is not None and line.endswith("\\"):
            more = await self._read_line(">")
            line = line[:-1] + (more or "")
        return line

    def _call(self, line: str, ranks: RankSet) -> Call:
        line = line.strip()
        typed = gdb_commands.first_word(line)
        if line.startswith("@") or _RANKS.match(line) is not None:
            raise UsageError(
                f"{line!r} is no command; 'focus {line.split()[0]}' selects those ranks, 'proc "
                f"{line.split()[0]} COMMAND' asks them"
            )
        if not typed:
            raise UsageError(f"{line!r} is no command")
        word, command = bodies.resolve(typed, self.workspace.user.names)
        rest = line[len(typed) :]
        letters = ""
        is_raw = command is not None and command.is_raw
        if not is_raw and (match := _LETTERS.match(rest)) is not None:
            letters, rest = match[1], rest[match.end() :]
        argument = rest.strip()
        # A command of its own follows these words, and can end in & itself.
        is_whole = word not in ("proc", "timeout") and not is_raw
        background = is_whole and (argument == "&" or argument.endswith(" &"))
        if background:
            argument = argument.removesuffix("&").strip()
        slash = f"/{letters}" if letters else ""
        whole = f"{word}{slash} {argument}".rstrip()
        return Call(
            dispatcher=self,
            ranks=ranks,
            word=word,
            letters=letters,
            argument=argument,
            line=whole,
            background=background,
            command=command,
        )

    # -- what commands need ------------------------------------------------------------------

    @contextlib.contextmanager
    def limited(self, timeout_s: float) -> Iterator[None]:
        """Limit the waiting of a command to *timeout_s*, for all answers and stops together."""
        before, self.workspace.run_timeout_s = self.workspace.run_timeout_s, timeout_s
        try:
            with deadline.within(timeout_s):
                yield
        finally:
            self.workspace.run_timeout_s = before

    def without_stops(self, answer: Answer) -> Answer:
        """Return the answer to a run command without its stops, which notifications have shown."""
        return replace(answer, is_reported=True)

    def apply(self, settings: Settings) -> None:
        """Apply settings to the session and the workspace."""
        self.session.options = settings.change(self.session.options)
        self.workspace.interface = settings.change_interface(self.workspace.interface)
        values = settings.values
        self.workspace.settle_s = values.get("settle_s", self.workspace.settle_s)
        if "timeout_s" in values:
            self.workspace.limit_s = values["timeout_s"]
            if self.workspace.run_timeout_s is not None:  # that of a batch run
                self.workspace.run_timeout_s = values["timeout_s"]

    def say(self, text: str) -> None:
        """Show a message."""
        self.display.flush()
        self.display.text(text)

    async def confirm(self, question: str) -> bool:
        """Ask the user; with ``set confirm off``, or where nobody can answer, it is yes."""
        if self._ask is None or not self.workspace.interface.confirm:
            return True
        with deadline.paused():
            return await self._ask(question)

    @property
    def can_ask(self) -> bool:
        """Whether the user is asked about a line that is carried out now."""
        is_asked = self._ask is not None and self.workspace.interface.confirm
        return is_asked and not self.files_open

    async def confirm_typed(self, question: str) -> bool:
        """Ask the user about a typed line; as in GDB, a file of commands is not asked about."""
        return bool(self.files_open) or await self.confirm(question)

    async def close(self) -> None:
        """Write the rest of the transcript."""
        if (path := self.transcript.path) is not None:
            with contextlib.suppress(PgdbError):
                await with_file(path, self.transcript.stop)

    def quit(self, *, kill: bool, why: str = "") -> None:
        """Leave the session; *why* gives the reason, if the user has not asked to leave.

        :raises Quit: always.
        """
        raise Quit(kill=kill, why=why)

    def next_is_source(self) -> None:
        """Note that the answer to the current command is source text."""
        self._is_source = True

    @property
    def width(self) -> int:
        """Columns that a line may have, 0 for no limit."""
        return self.display.width

    async def expand(self, answer: Answer, *, number: int = 0, first_place: int = 1) -> str:
        """Return the whole text of an answer, with its places from *first_place* on.

        *number* is the number that ``expand`` was given for it; 0 for the last answer.
        """
        answer = replace(answer, is_reported=False)
        rendered = functools.partial(
            render.answer, answer, whole=True, number=number, first_place=first_place
        )
        return await beside_if(answer.is_long, rendered, name="text")

    async def show_start(self, answer: Answer) -> None:
        """Show the ranks to which PGDB could not attach at the start."""
        await self.show(self.without_stops(answer))

    # -- showing -----------------------------------------------------------------------------

    async def show(self, outcome: Outcome) -> None:
        """Show the outcome of a command, unless it was shown before the hook behind it."""
        shown, self._shown = self._shown, None
        if shown is not None and outcome is shown:
            return
        if isinstance(outcome, Answer):
            number = self._remember(outcome)
            visible = self.workspace.visibility.answer(outcome)
            if visible is None:
                return
            outcome = visible
            rendered = functools.partial(
                render.answer,
                outcome,
                number=number,
                has_more=shows_more(self.session, outcome),
                read_source=source_line,
                width=self.display.width,
                absent=self.session.state.absent,
            )
            text = await beside_if(outcome.is_long, rendered, name="text")
            self.display.answer(outcome, text, is_source=self._is_source)
        elif isinstance(outcome, Shown):
            if outcome.answer is not None:
                is_tree = isinstance(outcome.line, TreeLine)
                self._remember(outcome.answer, ended_counts=is_tree)
            if outcome.sets:
                self.workspace.numbered_sets = outcome.sets
            if outcome.failed:
                self.worsen(EXIT_FAILED)
            if outcome.is_late:
                self.worsen(EXIT_NO_ANSWER)
            self.display.shown(outcome)
        elif outcome:
            self.display.text(outcome)

    def _remember(self, answer: Answer, *, ended_counts: bool = False) -> int:
        """Keep an answer for ``expand`` and ``@1``; return its number.

        See :func:`exit_status.of_answer` for *ended_counts*.
        """
        status = exit_status.of_answer(
            answer,
            ended_well=self.session.state.ended_well,
            ended_counts=ended_counts,
            may_run=self.workspace.settle_s is not None,
        )
        self.worsen(status)
        return self.workspace.remember(answer, render.numbered_sets(answer))

    def judge_events(self, classes: tuple[EquivalenceClass[Event], ...]) -> None:
        """Set the exit status for fatal signals of ranks that the user has not killed."""
        self.worsen(exit_status.of_events(classes, self.session.killed))

    def worsen(self, status: int) -> None:
        """Set the exit status to *status*, unless it is worse already."""
        self.status = exit_status.worse(self.status, status)
