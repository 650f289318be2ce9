"""Recovery of ranks: lost aggregators and debuggers are replaced, breakpoints set again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.breakpoint_journal import BreakpointJournal
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.notifications import Events, LateAnswer
from pgdb.frontend.api.settings_journal import KeptCommand, SettingsJournal, displays_made
from pgdb.frontend.api.traffic import Traffic
from pgdb.frontend.api.user_variables import define_variables, read_variables, sets_variable
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import AnyOperation, Console, InsertBreakpoint, Reattach
from pgdb.patterns import pattern
from pgdb.proctable import SessionMode
from pgdb.ranks import RankSet
from pgdb.records import READS_ITS_INPUT, Event, Exit, Failure, Record, Stop, Text
from pgdb.report_switch import switch, switch_line

_PENDING_ON = "set breakpoint pending on"
_PENDING_AUTO = "set breakpoint pending auto"
_NO_SYMBOL = 'No symbol "'
_OF_PYTHON = pattern(r"display(?:/\w+)?\s.*(?<![\w:\"'])py:")


class Recovery:
    """Driver of the reattachment to ranks."""

    def __init__(self, core: Core, traffic: Traffic, mode: SessionMode) -> None:
        self._core = core
        self._traffic = traffic
        self._mode = mode
        self._acquiring: asyncio.Task[None] | None = None
        self.worlds: Callable[[], Mapping[int, RankSet]] = dict
        """Function that returns the ranks of each world whose number is not 0."""
        traffic.on_unacquired = self.acquire_rest
        traffic.on_stopped_again = self.begin_stopped_again

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
        """Ask ranks as :meth:`Traffic.ask` does, and replace debuggers that have given up.

        Ranks that run keep theirs until they have stopped: another one would stop them.
        """
        answer = await self._traffic.ask(
            command,
            operation,
            ranks,
            timeout_s=timeout_s,
            request_id=request_id,
            of_ended=of_ended,
            is_own=is_own,
        )
        dead = RankSet.union(each.ranks for each in answer.classes if _reads_its_input(each))
        if dead := dead & self._core.state.stopped:
            replaced = await self.reattach(dead)
            back = RankSet.union(
                each.ranks for each in replaced.classes if isinstance(each.record, Stop)
            )
            if back:
                self._core.note(
                    f"[{back}] have another GDB now, at the same place and with the breakpoints; "
                    "settings, values of $ and displays are as at the start"
                )
            if left := dead - back:
                self._core.note(f"[{left}] could not be given another GDB; 'reattach' tries again")
        return answer

    async def reattach(self, ranks: RankSet, *, timeout_s: float | None = None) -> Answer:
        """Reattach to ranks whose debugger is gone or hangs, or that were detached.

        They are stopped then, and have the session's breakpoints; a notice names those that cannot
        be set again. A rank whose debugger answers is left as it is.

        Work that is not complete within *timeout_s* (that of a start by default) goes on, and its
        end is reported.
        """
        core, state = self._core, self._core.state
        begun_s = time.monotonic()
        with deadline.within(deadline.answers_s(core.options.start_timeout_s, timeout_s)):
            restoring = core.begin(self._restore(ranks - state.exited))
            if not await core.ends_in_time(restoring):
                core.begin(self._reattach_later(restoring, ranks))
                gone = ranks & state.exited
                return Answer(
                    command="reattach",
                    ranks=ranks,
                    classes=(),
                    missing=Missing(late=ranks - gone, lost=gone),
                    elapsed_s=time.monotonic() - begun_s,
                )
            answer = await self._traffic.ask("reattach", Reattach(), ranks)
            await self.stopped_again(answer.request_id, answer.classes)
            answer = _without_ended(answer, answer.missing.lost & state.exited)
            well = RankSet.union(
                each.ranks for each in answer.classes if isinstance(each.record, Text)
            )
            if not well.isdisjoint(state.lost):
                # Their debuggers answer, and the session has missed their events.
                core.transport.ask_states()
            return replace(answer, elapsed_s=time.monotonic() - begun_s)

    async def _restore(self, ranks: RankSet) -> None:
        for part, why in await self._core.transport.restore(ranks, self._core.table):
            self._core.note(f"[{part}] {why}")

    async def _reattach_later(self, restoring: asyncio.Task[None], ranks: RankSet) -> None:
        """Reattach to ranks when their aggregators are back, although nobody waits any longer."""
        try:
            await restoring
        except PgdbError as error:
            self._core.note(f"reattach: {error}")
            return
        await self._reattach_and_report(ranks)

    async def _reattach_and_report(self, ranks: RankSet) -> None:
        """Reattach to ranks, and report the outcome: nobody waits for it."""
        try:
            answer = await self.reattach(ranks)
        except PgdbError as error:
            self._core.note(f"reattach: {error}")
            return
        # The stops are reported already.
        others = tuple(each for each in answer.classes if not isinstance(each.record, Stop | Exit))
        if others or answer.missing:
            self._core.notifier.notify(LateAnswer(answer=replace(answer, classes=others)))

    def begin_stopped_again(
        self, request_id: int, classes: Sequence[EquivalenceClass[Record]]
    ) -> None:
        """Begin :meth:`stopped_again`."""
        self._core.begin(self.stopped_again(request_id, classes))

    async def stopped_again(
        self, request_id: int, classes: Sequence[EquivalenceClass[Record]]
    ) -> None:
        """Apply the stops of ranks that have a new debugger, and set their breakpoints."""
        core = self._core
        lost = core.transport.out_of_reach | self._traffic.died_since(request_id)
        came = stops_in(classes, lost)
        back = RankSet.union(each.ranks for each in came if isinstance(each.record, Stop))
        core.state.take_back(back)
        self._traffic.on_events(came, are_announced=True)
        if not await core.ends_in_time(core.begin(self._set_breakpoints(back))):
            core.note(f"[{back}] the session's breakpoints are still being set again")

    async def _set_breakpoints(self, ranks: RankSet) -> None:
        """Set the session's breakpoints on *ranks*; notices name those that cannot be set."""
        with self._traffic.making_again(ranks):
            await self.define_worlds(ranks)
            await self._switch_reports(ranks)
            for each in self._core.journal.of(ranks):
                self._complain(await self._traffic.ask(each.line, each.operation, each.ranks))
        await self._start_traces(ranks)

    async def _start_traces(self, ranks: RankSet) -> None:
        """Start the session's traces on *ranks* that have a new GDB."""
        for each in self._core.traces.of(ranks):
            self._complain(await self._traffic.ask(each.line, each.operation, each.ranks))

    async def define_worlds(self, ranks: RankSet) -> None:
        """Define ``$_world`` in the GDBs of ranks that MPI_Comm_spawn has started."""
        for number, members in self.worlds().items():
            if part := members & ranks:
                line = f"set $_world = {number}"
                self._complain(await self._traffic.ask(line, Console(command=line), part))

    async def _switch_reports(self, ranks: RankSet) -> None:
        """Turn the stops at reports of sanitizers off in new GDBs, if they are off."""
        if ranks and not self._core.options.stop_on_report:
            operation = Console(command=switch(False))
            self._complain(await self._traffic.ask(switch_line(False), operation, ranks))

    def _complain(self, again: Answer) -> None:
        """Send a notice of each failure of a command that was repeated."""
        for failed in again.errors:
            assert isinstance(failed.filled, Failure)
            why = failed.filled.message
            self._core.note(
                f"[{failed.ranks}] '{again.command}' cannot be carried out again: {why}"
            )

    async def extend(self, before: RankSet, new: RankSet) -> None:
        """Repeat for *new* ranks the commands that hold on all ranks *before*."""
        core = self._core
        # A setting is a request, too: none may advance the breakpoints before all are made.
        with self._traffic.making_again(new):
            await self._switch_reports(new)
            for kept in core.settings.extend(before, new):
                self._complain(await self._traffic.ask(kept.line, kept.operation, new))
            await self.define_worlds(new)
            core.journal.extend(before, new)
            for each in core.journal.of(new):
                answer = await self._traffic.ask(each.line, each.operation, each.ranks)
                if isinstance(each.operation, InsertBreakpoint):
                    answer = await self._made_pending(answer, each.operation)
                self._complain(answer)
        core.traces.extend(before, new)
        await self._start_traces(new)

    async def keep_variables(self) -> None:
        """Keep the values of the user's convenience variables for the next launch."""
        self._core.settings.variables = await read_variables(self._core, self._traffic)

    async def take_over(
        self, journal: BreakpointJournal, settings: SettingsJournal, before: RankSet
    ) -> None:
        """Repeat the commands of the session of an earlier launch, whose ranks were *before*."""
        everybody = self._core.state.ranks

        def of(ranks: RankSet) -> RankSet:
            return everybody if before <= ranks else ranks & everybody

        await define_variables(self._core, self._traffic, settings.variables, of)
        for kept in (*settings.kept, *settings.put_off):
            if sets_variable(kept.line):
                self._core.settings.keep(replace(kept, ranks=of(kept.ranks)))
                continue
            again = await self._traffic.ask(kept.line, kept.operation, of(kept.ranks))
            self._complain(self._put_display_off(kept, again))
            if kept.is_disabled:
                for number, ranks in displays_made(again.classes).items():
                    line = f"disable display {number}"
                    self._complain(await self._traffic.ask(line, Console(command=line), ranks))
        if settings.has_lost_python:
            self._core.note(
                "Python code that has done more than define commands, functions and printers is "
                "not carried out again; give it again if it is needed"
            )
        with self._traffic.making_again(everybody):
            for each in journal.of(before):
                ranks = of(each.ranks)
                answer = await self._traffic.ask(each.line, each.operation, ranks)
                if isinstance(each.operation, InsertBreakpoint):
                    answer = await self._made_pending(answer, each.operation)
                self._complain(answer)
        await self._start_traces(everybody)

    def _put_display_off(self, kept: KeptCommand, again: Answer) -> Answer:
        """Keep a display until its ranks are where its variables are; return what else failed."""
        if not isinstance(kept.operation, Console) or not kept.operation.display:
            return again
        # At the beginning of a launch there is no Python frame, or no interpreter.
        words = "" if _OF_PYTHON.match(kept.line) else _NO_SYMBOL
        ranks = _failed_with(words, again)
        if not ranks:
            return again
        self._core.settings.put_display_off(kept, ranks)
        self._core.note(f"[{ranks}] '{kept.line}' begins where its variables are known")
        others = tuple(each for each in again.classes if each.ranks.isdisjoint(ranks))
        return replace(again, classes=others)

    async def _made_pending(self, answer: Answer, operation: InsertBreakpoint) -> Answer:
        """Set a breakpoint anew that is in a library which is not loaded yet."""
        ranks = _failed_with(_PENDING_ON, answer)
        if not ranks:
            return answer
        await self._traffic.ask(_PENDING_ON, Console(command=_PENDING_ON), ranks)
        try:
            return await self._traffic.ask(answer.command, operation, ranks)
        finally:
            await self._traffic.ask(_PENDING_AUTO, Console(command=_PENDING_AUTO), ranks)

    def acquire_rest(self) -> None:
        """Attach to ranks whose aggregator was cut off before it knew them, and is back."""
        core = self._core
        is_under_way = self._acquiring is not None and not self._acquiring.done()
        # Ranks that are held for a launch cannot be attached to.
        can_be = core.is_started and self._mode == "attach" and not core.is_over
        if can_be and not is_under_way and core.transport.unacquired:
            self._acquiring = core.begin(self._acquire_rest())

    async def _acquire_rest(self) -> None:
        tried = RankSet()
        while ranks := self._core.transport.unacquired - tried:
            tried |= ranks
            await self._reattach_and_report(ranks & self._core.state.lost)


def _failed_with(words: str, answer: Answer) -> RankSet:
    """Return the ranks that have failed with a message in which *words* stand."""
    return RankSet.union(
        each.ranks
        for each in answer.errors
        if isinstance(each.filled, Failure) and words in each.filled.message
    )


def _reads_its_input(each: EquivalenceClass[Record]) -> bool:
    """Return whether the debugger of ranks reads PGDB's commands as the input of another one."""
    record = each.record
    return isinstance(record, Failure) and record.message.startswith(READS_ITS_INPUT)


def stops_in(classes: Sequence[EquivalenceClass[Record]], lost: RankSet) -> Events:
    """Return the stops and ends among answers to an attach; stops of *lost* ranks do not hold."""
    came: list[EquivalenceClass[Event]] = []
    for each in classes:
        if isinstance(each.record, Stop):
            came.append(EquivalenceClass(each.ranks - lost, each.record, each.slots))
        elif isinstance(each.record, Exit):
            came.append(EquivalenceClass(each.ranks, each.record, each.slots))
    return tuple(came)


def _without_ended(answer: Answer, ended: RankSet) -> Answer:
    """Return the answer to a reattach, with an error for the ranks that have ended."""
    if not ended:
        return answer
    over = EquivalenceClass[Record](ended, Failure(message="The program has ended on this rank."))
    classes = (*answer.classes, over)
    return replace(
        answer,
        classes=tuple(sorted(classes, key=lambda each: each.ranks.first)),
        missing=answer.missing - ended,
    )
