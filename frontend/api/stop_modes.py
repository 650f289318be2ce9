"""Stop modes: the ranks that PGDB interrupts when others stop.

Every decision is about classes of ranks: the stops of one moment come merged, and one request with
a rank set interrupts the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pgdb.errors import PgdbError, RankSetError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api.arrivals import TEMPORARY, partition, stop_at_another
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.interfaces import Interfaces
from pgdb.frontend.api.job_state import BY_USER
from pgdb.frontend.api.notifications import Events, RankEvents
from pgdb.frontend.api.options import StopMode
from pgdb.frontend.store.script_log import inner
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.event_buffer import EventBuffer
from pgdb.overlay.messages import AnyOperation, Console, Interrupt, Resume
from pgdb.overlay.passed_breakpoints import PassedBreakpoint
from pgdb.ranks import RankSet
from pgdb.records import BreakpointList, Event, Failure, Running, Stop, stopped_at

if TYPE_CHECKING:
    from pgdb.frontend.api.traffic import Traffic

TOGETHER_S = 1.0
"""Longest time for which a stop is not reported, so that it comes with those of the others."""
INTERRUPT_S = 10.0
"""Time after which ranks that have not stopped with the others are named."""
_ALONE = (
    *("interrupted", "end-stepping-range", "function-finished", "location-reached"),
    *("watchpoint-scope", "attached", "main", "entry"),
)
"""Reasons of stops that concern no other rank."""
_MOST_RUNS = 100
_GO_ON = ("continue", "jump", "signal")
"""Run commands that a further ``continue`` completes."""


class _Rule(msgspec.Struct, frozen=True):
    """The options of one breakpoint."""

    mode: StopMode | None = None
    """The mode of this breakpoint, None for that of the session."""
    members: str | Callable[[], RankSet] = ""
    """The ranks that stop at it: a rank set as text, or a function that returns it; empty for all.
    """
    text: str = ""
    """The ranks as they were typed."""
    is_once: bool = False
    """Whether it is deleted on each of these ranks that has stopped at it."""


class _Moment(msgspec.Struct):
    """Stops that belong together: the first ones, and those of the ranks interrupted for them."""

    cause: RankSet
    interrupted: RankSet
    """Ranks that PGDB has interrupted, and that have not stopped yet."""
    kept: list[EquivalenceClass[Event]]
    """Events that are not reported yet."""
    is_late: bool = False
    """Whether the first stops have been reported without those of all the others."""


class StopModes:
    """Interrupter of the ranks that stop with others, which joins the stops to one notification."""

    def __init__(self, core: Core, traffic: Traffic) -> None:
        self._core = core
        self._traffic = traffic
        self.interfaces = Interfaces()
        """The user interfaces, whose focus the mode ``focus`` is about."""
        self.parse: Callable[[str], RankSet] = RankSet.parse
        """Function that reads a rank set of the session."""
        self.delete: Callable[[int, RankSet], Awaitable[object]] = _keep
        """Function that deletes a breakpoint on ranks."""
        self._rules: dict[int, _Rule] = {}
        self._moment: _Moment | None = None
        self._goes_on: dict[int, bool] = {0: True}  # by run: whether 'continue' completes it
        self._interrupted = RankSet()  # asked to stop, without a stop since then
        self._refused = RankSet()  # their stop is shown, since they could not go on

    # -- rules of breakpoints ----------------------------------------------------------------

    def set_rule(
        self,
        number: int,
        mode: StopMode | None = None,
        members: str | Callable[[], RankSet] = "",
        text: str = "",
        *,
        is_once: bool = False,
    ) -> None:
        """Give breakpoint *number* a mode, or a set of ranks that is read at each hit.

        *text* is that set as it was typed. With *is_once* the breakpoint is deleted on each rank of
        the set that has stopped at it.
        """
        if mode is not None or members:
            text = members if isinstance(members, str) else text
            self._rules[number] = _Rule(mode, members, text, is_once)

    def copy_rule(self, number: int, others: Iterable[int]) -> None:
        """Give breakpoints *others* the options of another one, which the same command has made."""
        if (rule := self._rules.get(number)) is not None:
            self._rules |= dict.fromkeys(others, rule)

    def options_of(self, number: int) -> str:
        """Return the options of a breakpoint as they are typed; empty if it has none."""
        rule = self._rules.get(number, _Rule())
        mode = [f"--stop {rule.mode}"] if rule.mode is not None else []
        members = [f"--ranks {rule.text}"] if rule.text else []
        return " ".join([*mode, *members])

    def set_of(self, number: int) -> str:
        """Return the set that is read at each hit of a breakpoint, as typed; empty for none."""
        return self._rules.get(number, _Rule()).text

    def reads_set(self, number: int) -> bool:
        """Return whether the set of a breakpoint is read at each hit."""
        return bool(self._rules.get(number, _Rule()).members)

    def readers_of(self, name: str) -> tuple[int, ...]:
        """Return the breakpoints that read the set @*name* at each hit."""
        uses = re.compile(rf"@{re.escape(name)}\b")
        return tuple(
            number
            for number, rule in sorted(self._rules.items())
            if rule.members and uses.search(rule.text) and self._core.journal.ranks_of(number)
        )

    def line_of(self, number: int, line: str) -> str:
        """Return the command that makes a breakpoint, *line* for one that is not temporary."""
        return f"t{line}" if self._is_once(number) else line

    def with_options(self, answer: Answer) -> Answer:
        """Return a list of breakpoints with their options."""
        if not self._rules:
            return answer
        classes = []
        for each in answer.classes:
            record = each.record
            if isinstance(record, BreakpointList):
                listed = tuple(
                    replace(
                        one,
                        options=self.options_of(one.number),
                        disposition="del" if self._is_once(one.number) else one.disposition,
                    )
                    for one in record.breakpoints
                )
                each = EquivalenceClass(each.ranks, BreakpointList(listed), each.slots)
            classes.append(each)
        return replace(answer, classes=tuple(classes))

    def _is_once(self, number: int) -> bool:
        rule = self._rules.get(number)
        return rule is not None and rule.is_once

    def forget_rule(self, number: int) -> None:
        """Forget the options of a breakpoint that could not be made."""
        self._rules.pop(number, None)

    def take_over(self, before: StopModes) -> None:
        """Give breakpoints the options that they had at an earlier launch."""
        self._rules = dict(before._rules)

    def passed(self, word: str, ranks: RankSet) -> tuple[PassedBreakpoint, ...]:
        """Return the breakpoints that a run command passes over on some of *ranks*.

        A rank that stops at a breakpoint in a ``continue`` can go on from there, and the set is
        read at the hit. A ``next`` could not: its sets are read now.
        """
        if _can_go_on(word):
            return ()
        found = []
        for number, rule in list(self._rules.items()):
            if outside := ranks - self._members(number, rule, ranks):
                found.append(PassedBreakpoint.of(number, outside))
        return tuple(found)

    # -- requests ----------------------------------------------------------------------------

    def sent(self, number: int, operation: AnyOperation, ranks: RankSet) -> None:
        """Note a request that is sent to *ranks*."""
        match operation:
            case Interrupt():
                self._interrupted = self._interrupted | ranks
            case Resume(command=word) | Console(command=word, run=True):
                if number in self._goes_on:
                    return  # ranks that go on by themselves: an interrupt may have come before
                self._interrupted = self._interrupted - ranks
                self._note_run(number, goes_on=_can_go_on(word))
                self.interfaces.on_run(number)
            case _:
                pass

    def continues(self, number: int, before: int) -> None:
        """Note that a ``continue``, request *number*, goes on with the run of request *before*."""
        self._note_run(number, goes_on=True)
        self.interfaces.on_run(number, before)

    def _note_run(self, number: int, *, goes_on: bool) -> None:
        self._goes_on[number] = goes_on
        while len(self._goes_on) > _MOST_RUNS:
            del self._goes_on[next(iter(self._goes_on))]

    # -- events ------------------------------------------------------------------------------

    @property
    def asked_to_stop(self) -> RankSet:
        """Ranks that were asked to stop, and not only for a look, and have not stopped yet."""
        return self._interrupted - self._core.state.passing

    def admit(self, classes: Events) -> Events:
        """Return the events for the session: without stops of ranks that go on at once.

        Stops of ranks that PGDB has interrupted name the ranks for which it did.
        """
        if not self._rules and self._moment is None and not self._interrupted:
            return classes
        admitted: list[EquivalenceClass[Event]] = []
        for each in classes:
            event = each.record
            if isinstance(event, Stop):
                for part in list(self._without_outsiders(each, event)):
                    self._interrupted = self._interrupted - part.ranks
                    assert isinstance(part.record, Stop)
                    admitted += self._marked(part, part.record)
            else:
                admitted.append(each)
        return tuple(each for each in admitted if each.ranks)

    def _without_outsiders(
        self, each: EquivalenceClass[Event], stop: Stop
    ) -> Iterator[EquivalenceClass[Event]]:
        """Let ranks go on that are not in the set of the breakpoint; yield the others."""
        goes_on = self._goes_on.get(stop.run, False)
        theirs = self._ranks_of_hits(stop, each.ranks, goes_on=goes_on)
        if theirs is None:
            yield each
            return
        own = partition(each.ranks, theirs)
        for_nobody = own.pop((), RankSet())
        outside = (for_nobody & self._core.state.running) if goes_on else RankSet()
        stays = outside & (self._interrupted | self._refused)
        self._refused = self._refused - each.ranks
        if going := outside - stays:
            self._core.begin(self._go_on(each.part(going), stop))
        for numbers, ranks in own.items():
            for number in filter(self._is_once, numbers):
                self._core.begin(self._delete(number, ranks))
            yield EquivalenceClass(ranks, self._stop_at(numbers, stop), each.slots)
        yield each.part(for_nobody - outside)
        if stays:
            # The breakpoints are none of theirs: they would have run on.
            as_interrupted = replace(stop, reason="interrupted", breakpoint=0, breakpoints=())
            yield EquivalenceClass(stays, as_interrupted, each.slots)

    def _ranks_of_hits(
        self, stop: Stop, ranks: RankSet, *, goes_on: bool
    ) -> dict[int, RankSet] | None:
        """Return those of *ranks* that stop at each breakpoint of a hit; None if all stop at all.

        A rank that cannot go on stops at all but those that are deleted on the ranks of their set.
        """
        hit = stopped_at(stop)
        judged = {
            number: rule
            for number in hit
            if (rule := self._rules.get(number)) is not None
            and (rule.is_once or (rule.members and goes_on))
        }
        if not judged:
            return None
        return {
            number: self._members(number, judged[number], ranks) if number in judged else ranks
            for number in hit
        }

    def _stop_at(self, numbers: tuple[int, ...], stop: Stop) -> Stop:
        """Return the stop of ranks for which only *numbers* of its breakpoints are."""
        first = stop.breakpoint
        if first not in numbers:
            first = numbers[0]
            journal = self._core.journal
            is_temporary = journal.is_temporary(first)
            stop = stop_at_another(stop, journal.kind_of(first), is_temporary=is_temporary)
        hit = stop.hit or TEMPORARY * self._is_once(first)
        several = numbers if len(numbers) > 1 else ()
        return replace(stop, breakpoint=first, breakpoints=several, hit=hit)

    def _members(self, number: int, rule: _Rule, ranks: RankSet) -> RankSet:
        """Return those of *ranks* that stop at a breakpoint now; all if its set is forgotten."""
        given = rule.members
        if not given:
            return ranks
        try:
            return ranks & (self.parse(given) if isinstance(given, str) else given())
        except RankSetError as error:
            self._core.note(f"breakpoint {number} stops all ranks now: {error}")
            self._rules[number] = replace(rule, members="", text="")
            return ranks

    async def _delete(self, number: int, ranks: RankSet) -> None:
        try:
            await self.delete(number, ranks)
        except PgdbError as error:
            self._core.note(f"[{ranks}] breakpoint {number} could not be deleted: {error}")

    async def _go_on(self, each: EquivalenceClass[Event], stop: Stop) -> None:
        core, ranks = self._core, each.ranks
        if interrupted := ranks & self._interrupted:
            # The user has interrupted them meanwhile: the order to stop found them stopped.
            self._show(each.part(interrupted))
            ranks = ranks - interrupted
        if not ranks:
            return
        number = core.transport.next_id()
        core.state.continue_run(number, stop.run, ranks)
        self.continues(number, stop.run)
        started = RankSet()
        with contextlib.suppress(PgdbError):
            answer = await self._traffic.ask(
                "", Resume(command="continue"), ranks, request_id=number, is_own=True
            )
            started = answer.missing.late | RankSet.union(
                each.ranks for each in answer.classes if isinstance(each.record, Running)
            )
        if (again := started & self._interrupted & core.state.running) and not core.is_over:
            # The order to stop may have found them stopped, before they went on.
            with inner():
                core.begin(self._traffic.ask("interrupt", Interrupt(), again, is_own=True))
        if left := ranks - started & core.state.live:
            core.state.cancel_run(number, left)
            self._show(each.part(left))

    def _show(self, each: EquivalenceClass[Event]) -> None:
        """Report a stop of ranks that cannot go on."""
        self._refused = self._refused | each.ranks
        self._traffic.on_events((each,))

    def _marked(self, each: EquivalenceClass[Event], stop: Stop) -> list[EquivalenceClass[Event]]:
        moment = self._moment
        if moment is None:
            return [each]
        with_others = each.ranks & moment.interrupted
        moment.interrupted = moment.interrupted - each.ranks
        if stop.reason != "interrupted":
            return [each]
        record = replace(stop, stopped_with=str(moment.cause))
        return [
            EquivalenceClass(with_others, record, each.slots),
            each.part(each.ranks - with_others),
        ]

    def join(self, news: Events) -> Events:
        """Interrupt the ranks that stop with others; return the events to report now.

        The stops of one moment are reported together.
        """
        if self._core.is_over or not self._core.is_started:
            return news
        cause = others = RankSet()
        for each in news:
            if isinstance(each.record, Stop) and each.record.reason not in _ALONE:
                for ranks, hit in self._stopping(each.ranks, each.record):
                    if ranks and (found := self._others(ranks, each.record, hit)):
                        cause, others = cause | ranks, others | found
        if taken := self._core.passing.take(others):
            others -= taken
            news += self._core.state.stay_with(str(cause), taken)
        moment = self._moment
        if others and moment is None:
            moment = self._moment = _Moment(cause, others, [])
            self._core.begin(self._interrupt(moment, others))
        elif others and moment is not None and (more := others - moment.interrupted):
            moment.interrupted = moment.interrupted | more
            self._core.begin(self._interrupt(moment, more))
        if moment is None:
            return news
        moment.kept += news
        is_complete = moment.interrupted.isdisjoint(self._core.state.running)
        if is_complete:
            self._moment = None
        if not is_complete and not moment.is_late:
            return ()
        return _taken(moment)

    def _stopping(self, ranks: RankSet, stop: Stop) -> Iterator[tuple[RankSet, tuple[int, ...]]]:
        """Yield ranks of a stop with which others may stop, and the breakpoints that say so.

        Ranks that arrive at a barrier wait there for those that run. All have come to it where they
        are about to run on. Another breakpoint of the place has its effect on them.
        """
        state, hit = self._core.state, stopped_at(stop)
        held = {why: part for why, part in state.held_for.items() if why != BY_USER}
        arrived = RankSet.union(held.values()) - state.passing
        yield ranks - arrived - state.passing, hit or (0,)
        if others := tuple(number for number in hit if f"barrier {number}" not in held):
            yield ranks & arrived, others

    def _others(self, ranks: RankSet, stop: Stop, hit: tuple[int, ...]) -> RankSet:
        """Return the ranks that stop with *ranks* at *hit*: they run, or are about to run on."""
        modes = {self._mode_of(number) for number in hit}
        state = self._core.state
        moving = state.running | self._core.passing.all & state.stopped
        if "all" in modes:
            return moving
        if "focus" in modes:
            return moving & self.interfaces.focus(stop.run, ranks, state.ranks)
        return RankSet()

    def _mode_of(self, number: int) -> str:
        rule = self._rules.get(number)
        return (rule.mode if rule is not None else None) or self._core.options.stop_mode

    async def _interrupt(self, moment: _Moment, ranks: RankSet) -> None:
        core = self._core
        with inner():
            asking = core.begin(self._traffic.ask("interrupt", Interrupt(), ranks, is_own=True))
        await self._wait(moment, ranks, TOGETHER_S)
        self.flush(moment)
        await self._wait(moment, ranks, INTERRUPT_S - TOGETHER_S)
        left = ranks & moment.interrupted & core.state.running
        moment.interrupted = moment.interrupted - ranks
        if self._moment is moment and not moment.interrupted:
            self._moment = None
        if asking.done() and not asking.cancelled() and asking.exception() is None:
            for each in asking.result().errors:
                if isinstance(each.filled, Failure) and each.ranks & left:
                    core.note(
                        f"[{each.ranks & left}] not stopped with [{moment.cause}]: "
                        f"{each.filled.message}"
                    )
                    left = left - each.ranks
        if left:
            them = by_number(left, "it has", "they have")
            core.note(
                f"[{left}] not stopped with [{moment.cause}]: {them} not answered the interrupt "
                f"for {INTERRUPT_S:g} s; the stop is shown when it comes"
            )

    async def _wait(self, moment: _Moment, ranks: RankSet, timeout_s: float) -> None:
        core = self._core
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while ranks & moment.interrupted & core.state.running and not core.is_over:
                    await core.wait_change()

    def flush(self, only: _Moment | None = None) -> None:
        """Report the stops that wait for those of other ranks."""
        moment = self._moment
        if moment is None or (only is not None and only is not moment):
            return
        moment.is_late = True
        if events := _taken(moment):
            self._core.notifier.notify(RankEvents(classes=events))


def _can_go_on(command: str) -> bool:
    """Return whether a ``continue`` completes a run command after a stop."""
    return command.partition(" ")[0] in _GO_ON


async def _keep(number: int, ranks: RankSet) -> None:
    """Keep a breakpoint: nobody can delete it."""


def _taken(moment: _Moment) -> Events:
    """Return the events of a moment that are not reported; equal stops are one class again."""
    kept, moment.kept = moment.kept, []
    buffer = EventBuffer()
    for each in kept:
        buffer.add(each.ranks, each.record, each.slots)
    return tuple(each for group in buffer.take() for each in group)
