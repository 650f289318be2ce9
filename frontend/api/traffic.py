"""The traffic between a session and its ranks: requests, answers, events, losses."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec

from pgdb.errors import PgdbError, SessionEndedError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.full_answers import part_of
from pgdb.frontend.api import gdb_commands
from pgdb.frontend.api.breakpoint_numbers import BreakpointNumbers
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.hit_commands import HitCommands
from pgdb.frontend.api.late_answers import LateAnswers
from pgdb.frontend.api.notifications import (
    Events,
    LateAnswer,
    RankEvents,
    RanksBack,
    RanksLost,
    SessionNotice,
    Starting,
)
from pgdb.frontend.api.stop_modes import StopModes
from pgdb.frontend.store.script_log import ScriptLog, inner
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import (
    AdvanceBreakpoints,
    AnyOperation,
    Console,
    Detach,
    Evaluate,
    InsertBreakpoint,
    Interrupt,
    Kill,
    Lost,
    Notice,
    Reattach,
    Resume,
    Script,
)
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import (
    BreakpointsChanged,
    BreakpointsMade,
    Exit,
    Gone,
    Record,
    Running,
    Stop,
    Text,
    is_error,
)

_LEAST_TIMEOUT_S = 0.01
"""Timeout for state-changing requests sent after the command's deadline."""
_MOST_REMEMBERED = 1000
"""Number of requests whose late answers can be assigned to their command."""


class _Request(msgspec.Struct):
    """A request, kept for answers that come when nobody waits for them."""

    command: str
    operation: AnyOperation
    ranks: RankSet
    reachable: RankSet
    """Ranks that the request was sent to."""
    begun_s: float
    """Time of the request, by the monotonic clock."""
    were_gone: RankSet
    """Ranks without a debugger when the request was sent."""
    is_own: bool
    """Whether PGDB asks for a purpose of its own, so that a late answer is no news."""
    hides_start: bool = False
    """Whether a late answer that a rank runs is no news."""
    gone_since: RankSet = RankSet()
    """Ranks of a Reattach whose new debugger died before it completed."""


class Traffic:
    """Sender of requests to ranks, which applies each answer whenever it comes."""

    def __init__(self, core: Core, numbers: BreakpointNumbers) -> None:
        self._core = core
        self._numbers = numbers
        self._requests: dict[int, _Request] = {}
        self._in_flight: dict[int, RankSet] = {}
        self._making_again = 0
        self._unsent = 0
        """Number of requests to advance breakpoints that come before any other request."""
        self.late_answers = LateAnswers(self._report_late)
        self.stop_modes = StopModes(core, self)
        self.hit_commands = HitCommands(core, self)
        self.on_stopped_again: Callable[[int, Sequence[EquivalenceClass[Record]]], None] = (
            lambda request_id, classes: None
        )
        """Called with answers that stopped ranks when nobody waited for them."""
        self.on_unacquired: Callable[[], None] = lambda: None
        """Called when ranks can be reached that no aggregator has attached to."""
        self.on_news: Callable[[Events], None] = lambda news: None
        """Called with the events of ranks that are news, before they are reported."""
        self.early: list[Gathered] = []
        """Answers of lost ranks that came before the session has started."""
        self._quiet: dict[int, None] = {}
        self.silent = RankSet()
        """Ranks that have not answered a quiet request yet."""
        self.died_early = RankSet()
        """Ranks whose GDB died before the session has started."""

    @property
    def asked(self) -> RankSet:
        """Ranks with a request in flight."""
        return RankSet.union(self._in_flight.values())

    @property
    def oldest_s(self) -> float:
        """Age in seconds of the oldest request in flight, 0 if there is none."""
        requests = [self._requests[each] for each in self._in_flight if each in self._requests]
        return max((time.monotonic() - each.begun_s for each in requests), default=0.0)

    # -- requests ----------------------------------------------------------------------------

    async def ask(
        self,
        command: str,
        operation: AnyOperation,
        ranks: RankSet,
        *,
        timeout_s: float | None = None,
        request_id: int | None = None,
        of_ended: bool = False,
        is_own: bool = False,
    ) -> Answer:
        """Ask ranks; those that have ended or are lost count as missing at once.

        With *of_ended*, and if none of *ranks* lives, the debuggers of those that have ended answer
        from the program's file and from their own settings. A late answer to a request that PGDB
        makes for a purpose of its own (*is_own*) is applied and recorded, and not reported.

        :raises SessionEndedError: if the session is over.
        :raises UsageError: if a field of *operation* has a wrong value or is not UTF-8.
        :raises CommandError: if the transport cannot carry the operation out.
        """
        core, transport, state = self._core, self._core.transport, self._core.state
        if core.is_over:
            raise SessionEndedError(transport.when_closed)
        operation.check()
        if not operation.is_urgent and not isinstance(operation, AdvanceBreakpoints | Detach):
            self.advance_breakpoints()
            while self._unsent:
                await asyncio.sleep(0)
        number = request_id if request_id is not None else transport.next_id()
        if core.log is not None:
            core.log.request(number, operation, ranks)
        if core.script is not None and core.is_started:
            self._add_to_script(core.script, operation, ranks)
        if transport.is_recorded:
            reachable = ranks
        elif isinstance(operation, Reattach):
            reachable = ranks & (state.ranks - state.exited)
        else:
            # Also ranks that another command has set running: their GDB knows their state best.
            reachable = ranks & state.live
        of_ended = (of_ended or operation.reads_kept_values) and not reachable
        if of_ended:
            reachable = ranks & state.exited
        gone = state.lost | state.detached
        request = _Request(command, operation, ranks, reachable, time.monotonic(), gone, is_own)
        self._requests[number] = request
        while len(self._requests) > _MOST_REMEMBERED:
            del self._requests[next(iter(self._requests))]
        if isinstance(operation, Kill):
            # The event of the end can come before the answer.
            state.killed |= reachable
        limit_s = deadline.answers_s(core.options.timeout_s, timeout_s)
        if limit_s <= 0 and operation.only_reads and not transport.is_recorded:
            gathered = Gathered(number, (), Missing(late=reachable))
        else:
            self._in_flight[number] = reachable
            self.stop_modes.sent(number, operation, reachable)
            try:
                gathered = await transport.ask(
                    number,
                    reachable,
                    operation,
                    max(limit_s, _LEAST_TIMEOUT_S),
                    command,
                    of_ended=of_ended,
                )
            finally:
                del self._in_flight[number]
        answer = self._answered(request, gathered)
        self._apply(request, gathered)
        return answer

    def _add_to_script(self, script: ScriptLog, operation: AnyOperation, ranks: RankSet) -> None:
        state = self._core.state
        # The ranks of a run may count as running before it is sent.
        running = state.running - ranks if isinstance(operation, Resume) else state.running
        script.asked(operation, ranks, state.ranks, running)
        if script.failure:
            self._core.script = None
            self._core.note(f"{script.path}: the script ends here: {script.failure}")

    async def ask_quietly(
        self,
        operation: AnyOperation,
        ranks: RankSet,
        *,
        timeout_s: float,
        of_ended: bool = False,
    ) -> Gathered:
        """Ask ranks for the user interface itself, not for a command.

        No recording and no log gets the answer. One that comes too late is dropped. Ranks that
        have ended answer only to a question that is *of_ended* ranks.

        :raises SessionEndedError: if the session is over.
        """
        core, transport = self._core, self._core.transport
        if core.is_over:
            raise SessionEndedError(transport.when_closed)
        operation.check()
        number = transport.next_id()
        self._quiet[number] = None
        while len(self._quiet) > _MOST_REMEMBERED:
            del self._quiet[next(iter(self._quiet))]
        self.silent |= ranks
        gathered = await transport.ask(number, ranks, operation, timeout_s, "", of_ended=of_ended)
        self.silent -= ranks - gathered.missing.late
        return gathered

    def _answered(self, request: _Request, gathered: Gathered) -> Answer:
        """Record an answer, whether or not somebody waits for it."""
        core = self._core
        elapsed_s = gathered.elapsed_s
        answer = Answer(
            command=request.command,
            ranks=request.ranks,
            classes=gathered.classes,
            missing=gathered.missing | Missing(lost=request.ranks - request.reachable),
            request_id=gathered.request_id,
            elapsed_s=time.monotonic() - request.begun_s if elapsed_s is None else elapsed_s,
        )
        if core.transport.is_recorded:
            return answer
        makes_some = any(isinstance(each.record, BreakpointsMade) for each in answer.classes)
        if request.operation.is_about_breakpoints or makes_some:
            # Where the job can be launched again, ranks that have ended get it then. A breakpoint
            # that ranks had when they ended is changed and deleted with that of the others.
            is_new = makes_some or isinstance(request.operation, InsertBreakpoint)
            ended = core.state.exited if is_new and not core.can_restart else RankSet()
            core.journal.take(
                request.command, request.operation, request.ranks - ended, answer.classes
            )
            core.wake()
        if gdb_commands.resolve(request.command) == "clear":
            core.journal.note_cleared(answer.classes)
        core.settings.take(request.command, request.operation, answer.classes)
        is_evaluation = isinstance(request.operation, Evaluate)
        place = core.state.place(request.ranks) if is_evaluation else ""
        core.recorder.take(request.operation, answer, place)
        if core.autosave is not None:
            core.record_soon()
        if core.log is not None:
            core.log.answer(answer)
        return answer

    def _apply(self, request: _Request, gathered: Gathered) -> RankSet:
        """Apply answers to the state; return the ranks that have left the session by them."""
        classes, operation = gathered.classes, request.operation
        left = RankSet()
        match operation:
            case Detach() | Kill():
                if isinstance(operation, Kill):
                    failed = RankSet.union(each.ranks for each in classes if each.is_error)
                    self._core.state.killed -= failed
                left = RankSet.union(each.ranks for each in classes if not each.is_error)
                if isinstance(operation, Detach):
                    self._core.state.detach(left)
                    self._core.wake()
                else:
                    self._killed(left)
            case Resume() | Console(run=True):
                others = (each.ranks for each in classes if not isinstance(each.record, Running))
                self._core.state.cancel_run(gathered.request_id, RankSet.union(others))
                self._core.wake()
            case Console() | Script():
                # Code of the user's has done it, such as gdb.execute("continue") in Python.
                started = (each.ranks for each in classes if isinstance(each.record, Running))
                self._core.state.start_unasked(gathered.request_id, RankSet.union(started))
            case InsertBreakpoint():
                ranks = RankSet.union(each.ranks for each in classes)
                self._core.journal.take(request.command, operation, ranks, classes)
            case _:
                pass
        self._numbers.made(classes)
        return left

    @contextlib.contextmanager
    def making_again(self, ranks: RankSet) -> Iterator[None]:
        """Make breakpoints of ranks with new GDBs, with their numbers from 1 on."""
        self._numbers.begins_anew(ranks)
        self._making_again += 1
        try:
            yield
        finally:
            self._making_again -= 1
            # The last ones may have been deleted: their numbers are not given again.
            self._numbers.reached(self._numbers.last, RankSet())

    def advance_breakpoints(self) -> None:
        """Let the next breakpoint of all ranks have the same number, before the next request.

        Ranks that have not made the last one (others were asked, or they have no such function)
        would give its number once more. While ranks run, the same commands at a hit give the same
        number.
        """
        core, last = self._core, self._numbers.last_made
        ranks = self._numbers.behind(core.state.live or core.state.exited)
        can_be = core.is_started and not core.is_over and not core.transport.is_recorded
        if ranks and can_be and not self._making_again:
            self._numbers.reached(last, ranks)
            self._unsent += 1
            core.begin(self._advance(last, ranks))

    async def _advance(self, last: int, ranks: RankSet) -> None:
        self._unsent -= 1
        with contextlib.suppress(PgdbError):
            await self.ask("", AdvanceBreakpoints(last=last), ranks, of_ended=True)

    def _killed(self, ranks: RankSet) -> None:
        """Note the end of *ranks*; their own event of it comes later."""
        if ranks:
            self._core.state.killed |= ranks
            self.on_events((EquivalenceClass(ranks=ranks, record=Exit(signal="SIGKILL")),))

    def died_since(self, request_id: int) -> RankSet:
        """Return the ranks whose new debugger has died since a Reattach was sent."""
        request = self._requests.get(request_id)
        return request.gone_since if request is not None else RankSet()

    # -- answers that nobody waits for -------------------------------------------------------

    def expect_late_start(self, request_id: int) -> None:
        """Do not report late answers to a run command that say that a rank runs."""
        if (request := self._requests.get(request_id)) is not None:
            request.hides_start = True

    def on_late(self, gathered: Gathered) -> None:
        """Apply and report answers that nobody waits for."""
        core = self._core
        if not core.is_started:
            # The events that were held back come first.
            self.early.append(gathered)
            core.wake()
            return
        if core.is_over:
            return
        number, classes = gathered.request_id, gathered.classes
        if number in self._quiet:
            self.silent -= RankSet.union(each.ranks for each in classes)
            return
        stopped = tuple(each for each in classes if isinstance(each.record, Stop | Exit))
        if stopped:
            self.on_stopped_again(number, stopped)
        command, left = "", RankSet()
        if (request := self._requests.get(number)) is not None:
            command = request.command
            if not gathered.is_late:
                # The user gave the command up before the ranks could answer.
                self._answered(request, gathered)
            left = self._apply(request, gathered)
            self._note_started(gathered)
            if isinstance(request.operation, AdvanceBreakpoints):
                return
            if left and isinstance(request.operation, Detach):
                core.note("\n".join(lines_of_detached(classes)))
        others = tuple(
            part
            for each in classes
            if each not in stopped and (part := each.part(each.ranks - left)).ranks
        )
        if others:
            self.late_answers.add(number, command, others)

    def _note_started(self, gathered: Gathered) -> None:
        """Note that ranks run which have counted as stopped since they were lost for a moment."""
        run, state = gathered.request_id, self._core.state
        started = RankSet.union(e.ranks for e in gathered.classes if isinstance(e.record, Running))
        if ranks := state.started_late(run, started):
            self.on_events((EquivalenceClass(ranks=ranks, record=Running(run=run)),))

    def _report_late(self, answer: Answer) -> None:
        self._core.recorder.take_late(answer)
        self._core.record_soon()
        request = self._requests.get(answer.request_id)
        if request is not None and request.is_own:
            return
        if request is not None and request.hides_start:
            started = (e.ranks for e in answer.classes if isinstance(e.record, Running))
            answer = part_of(answer, answer.ranks - RankSet.union(started))
        if answer.ranks:
            self._core.notifier.notify(LateAnswer(answer=answer))

    # -- events ------------------------------------------------------------------------------

    def on_events(self, classes: Events, *, are_announced: bool = False) -> None:
        """Apply and report events of ranks, or the states that aggregators announce."""
        core, notifier = self._core, self._core.notifier
        lost_before = core.state.lost
        if gone := RankSet.union(e.ranks for e in classes if isinstance(e.record, Gone)):
            self._debuggers_died(gone)
            self._numbers.begins_anew(gone)
        # Their GDBs work, whether they have answered or were replaced.
        self.silent -= RankSet.union(e.ranks for e in classes if isinstance(e.record, Stop))
        asked_to_stop = self.stop_modes.asked_to_stop
        classes = self.stop_modes.admit(classes)
        due = () if are_announced else self.hit_commands.due(classes)
        core.journal.hit(classes)
        if any(isinstance(each.record, BreakpointsChanged) for each in classes):
            classes = self._without_changes(classes)
        applied = core.state.apply(classes, are_announced=are_announced)
        core.passing.on_events(applied)
        self.on_news(applied)
        news = notifier.audible(_without_stops(applied, self.hit_commands.hidden(due)))
        if back := lost_before - core.state.lost:
            notifier.notify(RanksBack(ranks=back, text="their aggregator can be reached again"))
        if news and core.is_started:
            core.record_soon()
            if core.options.stop_on_error:
                news += self._stop_others(news)
            if classes := self.stop_modes.join(news):
                notifier.notify(RankEvents(classes=classes))
        elif news:
            notifier.notify_at_once(RankEvents(classes=news))
        self.hit_commands.begin(due, asked_to_stop)
        core.wake()

    def _without_changes(self, classes: Events) -> Events:
        """Note which breakpoints ranks have made and deleted; return the other events."""
        self._core.journal.note_changes(classes)
        for each in classes:
            if isinstance(each.record, BreakpointsChanged):
                self._numbers.reached(each.record.last, each.ranks)
        return tuple(each for each in classes if not isinstance(each.record, BreakpointsChanged))

    def _debuggers_died(self, ranks: RankSet) -> None:
        """Note the death of GDBs, for attaches that are in flight.

        For a rank that had a debugger before, it is unknown which of the two has died.
        """
        if not self._core.is_started:
            self.died_early |= ranks & self._core.state.ranks
        for request in self._requests.values():
            if isinstance(request.operation, Reattach):
                request.gone_since |= ranks & request.were_gone

    def _stop_others(self, news: Events) -> Events:
        """Interrupt the rest of a run in which a rank got a fatal signal.

        The others would wait for it for ever. Return the stops of those that PGDB had stopped for
        itself; they stay stopped.
        """
        core, stay = self._core, RankSet()
        for each in news:
            event = each.record
            if isinstance(event, Stop) and is_error(event):
                stay |= core.passing.take(core.state.members(event.run) - each.ranks)
                if others := core.state.runners(event.run):
                    with inner():
                        core.begin(self.ask("interrupt", Interrupt(), others, is_own=True))
        return core.state.latest(stay)

    def on_lost(self, lost: Lost) -> None:
        """Apply and report the loss of ranks."""
        core = self._core
        if core.is_over:
            return  # the aggregators leave, as asked
        news = core.state.lose(lost.ranks)
        core.passing.on_lost(news)
        for ranks, text in core.transport.describe_loss(lost, news):
            core.notifier.notify(RanksLost(ranks=ranks, text=text))
        core.wake()

    def on_notice(self, notice: Notice) -> None:
        """Report a notice of the transport."""
        hosts = notice.hosts if len(self._core.table.hosts) > 1 else ()
        where = f" (on {', '.join(hosts)})" if hosts else ""
        self._core.notifier.notify(SessionNotice(text=f"{notice.text}{where}"))

    def on_progress(self, text: str) -> None:
        """Report the progress of the start."""
        if not self._core.is_started:
            self._core.notifier.notify_at_once(Starting(text=text))


def lines_of_detached(classes: Sequence[EquivalenceClass[Record]]) -> list[str]:
    """Return the outcome of a detach, a line for each class."""
    return [
        f"[{each.ranks}] detached; "
        + (each.filled.text if isinstance(each.filled, Text) else "they run on")
        for each in classes
        if not each.is_error
    ]


def _without_stops(classes: Events, ranks: RankSet) -> Events:
    """Return events without the stops of *ranks*."""
    if not ranks:
        return classes
    return tuple(
        each.part(each.ranks - ranks) if isinstance(each.record, Stop) else each
        for each in classes
        if not isinstance(each.record, Stop) or each.ranks - ranks
    )
