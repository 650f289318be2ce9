"""Commands of breakpoints whose set of ranks is read at each hit.

GDB would carry them out before PGDB has read the set, on all ranks. So the GDBs do not have these
commands. PGDB gives them to the ranks of the set when their stop is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api import gdb_commands, gdb_words
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.gdb_blocks import Line, Node, parse
from pgdb.frontend.api.gdb_words import Kind
from pgdb.frontend.api.notifications import Events, RankEvents
from pgdb.frontend.api.passing import Passing
from pgdb.frontend.store.script_log import inner
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.messages import Interrupt, Script
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import (
    PLACEHOLDER,
    BreakpointsMade,
    Event,
    Failure,
    Output,
    Running,
    Stop,
    Text,
    stopped_at,
)

if TYPE_CHECKING:
    from pgdb.frontend.api.traffic import Traffic

_RUN_CODE = ("python", "guile", "source", "eval", "with", "compile")
"""Commands of GDB's that can carry out any other one."""

_ERROR = "error: "
_LINE = pattern(r"line \d+: ")


class Starter(Protocol):
    """Function that sets ranks running by a run command, as a part of an earlier run."""

    async def __call__(self, line: str, ranks: RankSet, *, continues: int) -> Answer:
        """Set the ranks running by *line*, as a part of the run of request *continues*."""


class Due(msgspec.Struct, frozen=True):
    """Commands that ranks are to carry out at their hit."""

    ranks: RankSet
    run: int
    """The run that ended with the hit."""
    bodies: tuple[tuple[int, tuple[str, ...]], ...]
    """The commands of each breakpoint, by its number."""
    barrier: int = 0
    """The barrier to which the ranks have come by the hit, 0 for none. As where GDB carries the
    commands out, they set no rank running then, also if the barrier is met by the hit."""

    @property
    def is_silent(self) -> bool:
        """Whether the stop is not shown if the ranks run on."""
        return any(_is_silent(lines) for _, lines in self.bodies)


class HitCommands:
    """Carrier out of the commands of breakpoints, at the hits of the ranks that stop there."""

    def __init__(self, core: Core, traffic: Traffic) -> None:
        self._core = core
        self._traffic = traffic
        self.start: Starter | None = None
        """Function that sets ranks running by a run command."""
        self.barriers: Callable[[], Collection[int]] = tuple
        """Function that returns the numbers of the barriers."""

    def due(self, classes: Events) -> tuple[Due, ...]:
        """Return the commands of the hits of *classes*, whose breakpoints are for their ranks.

        The breakpoints have to be there still: a hit deletes temporary ones.
        """
        found: list[Due] = []
        for each in classes:
            if isinstance(each.record, Stop) and (numbers := stopped_at(each.record)):
                found += self._due_at(each.ranks, numbers, each.record.run)
        return tuple(found)

    def _due_at(self, ranks: RankSet, numbers: Sequence[int], run: int) -> Iterator[Due]:
        there = self.barriers()
        barrier = next((each for each in numbers if each in there), 0)
        parts: list[Due] = [Due(ranks, run, (), barrier)]
        for number in numbers:
            for having, lines in self._core.journal.judged_commands(number, ranks):
                parts = [part for each in parts for part in _divided(each, having, number, lines)]
        yield from (each for each in parts if each.ranks and each.bodies)

    def hidden(self, due: Iterable[Due]) -> RankSet:
        """Return the ranks whose stop is shown only if they stay: their commands are silent."""
        silent = RankSet.union(each.ranks for each in due if each.is_silent)
        return silent & self._core.state.stopped

    def begin(self, due: Iterable[Due], asked_to_stop: RankSet) -> None:
        """Begin to carry out commands.

        Ranks *asked_to_stop* have come to the hit before the order has reached them. They carry out
        no line that sets them running.
        """
        for each in due:
            if ranks := each.ranks & self._core.state.stopped:
                passing = self._core.passing.begin(ranks)
                self._core.begin(self._carry_out(each, passing, ranks & asked_to_stop))

    async def _carry_out(self, due: Due, passing: Passing, stays: RankSet) -> None:
        core, left = self._core, passing.ranks
        try:
            for number, lines in due.bodies:
                lines = lines[1:] if _is_silent(lines) else lines
                for node in parse("commands", lines).body:
                    left -= stays if may_run(node) else RankSet()
                    if left := left & passing.ranks & core.state.stopped:
                        left = await self._step(due, passing, number, node, left)
        except PgdbError as error:
            core.note(f"[{left}] commands of a breakpoint were not carried out: {error}")
        finally:
            stopped = passing.ranks & core.state.stopped
            core.passing.end(passing)
            # Other ranks stop with them, as with a stop that is shown at once.
            news = core.state.latest(stopped) if due.is_silent else ()
            if news and (classes := self._traffic.stop_modes.join(news)):
                core.notifier.notify(RankEvents(classes=classes))

    async def _step(
        self, due: Due, passing: Passing, number: int, node: Node, ranks: RankSet
    ) -> RankSet:
        """Carry out a line or a block; return the ranks that carry out the next one.

        As in GDB, the lines behind one that has set the rank running are not carried out.
        """
        core = self._core
        if due.barrier and may_run(node):
            text = f"{_ERROR}'{node.text}' has no effect: barrier {due.barrier} holds the rank"
            self._traffic.on_events((EquivalenceClass(ranks, Output(text=text, of_stop=True)),))
            return RankSet()
        if may_run(node) and (held := ranks & core.state.held):
            core.note(f"[{held}] held, so '{node.text}' of breakpoint {number} has no effect there")
            if not (ranks := ranks - held):
                return ranks
        with inner():
            if isinstance(node, Line) and _is_run(node.text):
                assert self.start is not None
                await self.start(node.text, ranks, continues=due.run)
                return RankSet()
            answer, started = await self._script(due, number, node, ranks)
        if late := answer.missing.late:
            them = by_number(late, "it goes", "they go")
            core.note(f"[{late}] the commands of breakpoint {number} take long; {them} on")
        failed = self._show(answer)
        if (again := started - passing.ranks & core.state.running) and not core.is_over:
            # The user's interrupt found them stopped, before the commands let them run on.
            core.begin(self._traffic.ask("interrupt", Interrupt(), again, is_own=True))
        return ranks - started - failed - answer.missing.ranks

    async def _script(
        self, due: Due, number: int, node: Node, ranks: RankSet
    ) -> tuple[Answer, RankSet]:
        """Give a line or a block to the ranks' GDBs; return the answer, and the ranks that run by
        it."""
        request = self._core.transport.next_id()
        lines = (node.text,) if isinstance(node, Line) else node.raw
        answer = await self._traffic.ask(
            f"commands of breakpoint {number}",
            Script(lines=gdb_commands.with_files_for_ranks(lines, len(ranks))),
            ranks,
            request_id=request,
        )
        started = RankSet.union(
            each.ranks for each in answer.classes if isinstance(each.record, Running)
        )
        if started:
            self._core.state.continue_run(request, due.run, started & self._core.state.running)
            self._traffic.stop_modes.continues(request, due.run)
        return answer, started

    def _show(self, answer: Answer) -> RankSet:
        """Report what the commands have printed; return the ranks in which a line has failed."""
        shown: list[EquivalenceClass[Event]] = []
        failed = RankSet()
        for each in answer.classes:
            match each.record:
                case Text(text=text):
                    output = Output(text=text, of_stop=True)
                    shown.append(EquivalenceClass(each.ranks, output, each.slots))
                case BreakpointsMade() if text := _text_of(each.filled):
                    shown.append(EquivalenceClass(each.ranks, Output(text=text, of_stop=True)))
                case Failure(message=message, output=printed):
                    failed |= each.ranks
                    of_message = message.count(PLACEHOLDER)
                    if printed.strip():
                        output = Output(text=printed.rstrip(), of_stop=True)
                        shown.append(EquivalenceClass(each.ranks, output, each.slots[of_message:]))
                    # As where GDB itself carries the commands out: it names no line.
                    text = f"{_ERROR}{_LINE.sub('', message, count=1)}"
                    output = Output(text=text, of_stop=True)
                    shown.append(EquivalenceClass(each.ranks, output, each.slots[:of_message]))
                case _:
                    pass
        if shown:
            self._traffic.on_events(tuple(shown))
        return failed


def _text_of(record: object) -> str:
    return record.text if isinstance(record, BreakpointsMade) else ""


def may_run(node: Node) -> bool:
    """Return whether a line or a block of GDB's can set the rank running.

    >>> may_run(Line(1, "print x")), may_run(Line(1, "c")), may_run(Line(1, "mine"))
    (False, True, True)
    """
    if isinstance(node, Line):
        word = gdb_words.resolve(gdb_commands.innermost(node.text))
        return word not in gdb_words.KINDS or word in _RUN_CODE or _is_run(node.text)
    return node.is_text or any(map(may_run, (*node.body, *node.otherwise)))


def _is_run(line: str) -> bool:
    return gdb_commands.kind_of(gdb_words.resolve(line), line) is Kind.RUN


def _is_silent(lines: Sequence[str]) -> bool:
    return bool(lines) and lines[0].strip() == "silent"


def _divided(due: Due, having: RankSet, number: int, lines: tuple[str, ...]) -> Iterator[Due]:
    """Yield the ranks that carry out *lines* as well, and the others."""
    body = (*due.bodies, (number, lines))
    yield replace(due, ranks=due.ranks & having, bodies=body)
    yield replace(due, ranks=due.ranks - having)
