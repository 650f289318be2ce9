"""A run whose ranks have a GDB from their start: stops before a death, values at locations."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb import core_limit
from pgdb.errors import PgdbError, StartError
from pgdb.frontend.analysis.answers import Answer, failures_text
from pgdb.frontend.api.notifications import JobOutput, Notification
from pgdb.frontend.api.session import Session
from pgdb.frontend.report.collect import collect
from pgdb.frontend.report.model import Cause, Report, TimedEvent
from pgdb.frontend.run import exit_status
from pgdb.frontend.run.hang_watch import computing_text, hang_text
from pgdb.frontend.run.inspection import SAMPLES, Running, look_for_progress, stopped_by_themselves
from pgdb.frontend.run.occasions import Occasions
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.places import Place, check_in_words
from pgdb.frontend.run.publishing import Publisher
from pgdb.frontend.run.run_report import with_words_of_job
from pgdb.frontend.show.text import trace_text
from pgdb.frontend.startup.start import launch
from pgdb.frontend.system.shielding import to_its_end
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop, Value, is_error, stopped_at

STEP_S = 1.0
"""Longest wait for stops before other events are looked at."""
SETTLE_S = 0.2
OTHERS_S = 10.0
"""Longest wait for the other ranks to stop after one is about to die."""
MOST_VALUES = 8
"""Most different values of one expression in an event."""
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU, signal.SIGINT)


class Trigger(msgspec.Struct, frozen=True):
    """An event to act on, which no rank has caused."""

    kind: Literal["time-limit", "request", "snapshot", "ended"]
    text: str


class GdbRun:
    """One run of a job under GDBs."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options
        self._publisher = Publisher(options)
        self._places: dict[int, list[Place]] = {}
        """By number of the breakpoint."""
        self._reached: set[Place] = set()
        self._events: list[TimedEvent] = []
        self._triggers: list[Trigger] = []
        self._notes: list[str] = []
        """Facts about the run that could not be found out."""
        self._occasions = Occasions(
            options, self, lambda kind, text: self._triggers.append(Trigger(kind, text))
        )
        self._requests = 0
        """Number of reports on request, and of snapshots."""
        self._last_s = time.monotonic()
        """Time of the last output, or of progress that was seen, monotonic."""
        self._reported_s = 0.0
        """Time of the last output before the hang that was reported; 0 if there was none."""
        self._report: Report | None = None
        self._ended_by_us = False
        self._unchecked: set[str] = set()
        """Checks that some ranks could not evaluate, in words; each is an event once."""

    async def run(self) -> int:
        """Run the job; return the exit status of ``pgdb run``.

        :raises PgdbError: if the job cannot be started, or a location does not exist.
        """
        early = _end_at_signals()
        try:
            return await self._run()
        except asyncio.CancelledError:
            if not early:
                raise
            text = f"{early[0]} came to pgdb run while the job was starting: the job is ended"
            self._publisher.say(text)
            return exit_status.EXIT_ENDED

    async def _run(self) -> int:
        await self._publisher.check()
        core_limit.leave_none()
        options = self._options.session.changed(stop_before_death=True)
        stdin = os.dup(0)
        try:
            session = await launch(
                self._options.line, options, stdin=stdin, listener=self._on_notification
            )
        finally:
            os.close(stdin)
        kill = True
        try:
            await self._set_places(session)
            self._watch_signals()
            await self._supervise(session)
            if self._report is None:
                if session.job is not None and session.all_have_ended:
                    await session.job.wait()
                self._report = await self._collect(session, None)
            elif session.all_have_ended:
                # The report is that of an event; ranks ran on and came to further locations.
                await self._note_traces(session)
                notes = (*self._report.notes, *self._never_reached())
                self._report = replace(self._report, notes=tuple(dict.fromkeys(notes)))
            kill = self._ended_by_us
        finally:
            await self._occasions.close()
            await to_its_end(session.close(kill=kill))
        return await self._conclude(session)

    def _on_notification(self, notification: Notification) -> None:
        if isinstance(notification, JobOutput):
            self._last_s = time.monotonic()
            descriptor = 2 if notification.stream == "stderr" else 1
            view = memoryview(notification.data)
            while view:
                try:
                    view = view[os.write(descriptor, view) :]
                except OSError:  # the reader is gone; the job need not end for that
                    return

    async def _set_places(self, session: Session) -> None:
        """Set the breakpoints and traces of the options.

        :raises StartError: if a location or an expression cannot be used on any rank.
        """
        everyone = session.ranks(session.set)
        # GDB names one breakpoint of several that are hit at once.
        together: dict[tuple[str, str], list[Place]] = {}
        for place in (*self._options.breakpoints, *self._options.checks):
            together.setdefault((place.location, place.condition), []).append(place)
        for (location, condition), places in together.items():
            answer = await everyone.break_at(location, condition=condition, stop="rank")
            _require(answer, f"the location {location}")
            self._places[session.last_breakpoint] = places
        for number, place in enumerate(self._options.traces, 1):
            condition = place.condition
            if place.first > 1:
                counter = f"$pgdb_hits_{number}"
                await everyone.execute(f"set {counter} = 0")
                begins = f"{counter}++ >= {place.first - 1}"
                condition = f"({condition}) && {begins}" if condition else begins
            answer = await everyone.trace(
                place.location,
                *place.expressions,
                condition=condition,
                every=place.every,
                first=place.count,
            )
            _require(answer, f"the trace at {place.location}")

    # -- events ------------------------------------------------------------------------------------

    def _watch_signals(self) -> None:
        """Take signals as events from now on."""
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            text = f"{signal.Signals(number).name} came to pgdb run: the job is ended"
            loop.add_signal_handler(number, self._triggers.append, Trigger("ended", text))
        self._occasions.watch_requests()
        self._occasions.begin_timers()

    def add_notice(self, text: str) -> None:
        """Add a notice to the time line; it is no progress of a rank."""
        self._events.append(TimedEvent(time=time.time(), kind="notice", text=text))

    def add_note(self, text: str) -> None:
        """Add a fact that could not be found out."""
        self._notes.append(text)

    def say(self, text: str) -> None:
        """Print a line for the user."""
        self._publisher.say(text)

    # -- the run -----------------------------------------------------------------------------------

    async def _supervise(self, session: Session) -> None:
        """Let the ranks run until the job has ended, or has to be left."""
        self._last_s = time.monotonic()
        await session.ranks(session.state.stopped).continue_(wait=False)
        was_trigger = False
        while not (session.all_have_ended or session.job_has_ended):
            if running := session.state.running:
                await session.ranks(running).wait(timeout_s=STEP_S, settle_s=SETTLE_S)
            stopped = session.state.stopped
            # A rank that has stopped meanwhile comes before the next trigger: it would not run.
            is_turn = not (was_trigger and stopped)
            was_trigger = bool(self._triggers) and is_turn
            if was_trigger:
                if not await self._on_trigger(session, self._triggers.pop(0)):
                    return
            elif stopped or _ended_badly(session):
                if not await self._on_stop(session, stopped):
                    return
            elif self._is_quiet() and not await self._on_quiet(session):
                return

    def _is_quiet(self) -> bool:
        limit_s = self._options.hang_after_s
        if not limit_s or self._last_s == self._reported_s:
            return False
        return time.monotonic() - self._last_s > limit_s / 2

    async def _on_stop(self, session: Session, stopped: RankSet) -> bool:
        """Act on stops; return whether the run goes on."""
        failed = RankSet.union(
            each.ranks
            for each in session.state.latest(stopped)
            if isinstance(each.record, Stop) and is_error(each.record)
        )
        if failed or _ended_badly(session):
            if running := session.state.running:
                await session.ranks(running).wait(timeout_s=OTHERS_S)
            if running := session.state.running:
                await session.ranks(running).interrupt()
            report = await self._collect(session, None)
            await self._publisher.write(report)
            self._report = report
            return await self._then(session)
        for each in session.state.latest(stopped):
            hit = stopped_at(each.record)
            for place in [one for number in hit for one in self._places.get(number, ())]:
                self._reached.add(place)
                if not place.check:
                    await self._note_values(session, place, each.ranks & stopped)
                elif not await self._check(session, place, each.ranks & stopped):
                    return False
        await self._resume(session)
        return True

    async def _continue(self, session: Session) -> None:
        """Let the ranks run on, unless some have stopped by themselves meanwhile: such a stop is an
        event of its own, which comes next."""
        if not stopped_by_themselves(session):
            await self._resume(session)

    async def _resume(self, session: Session) -> None:
        if stopped := session.state.stopped:
            await session.ranks(stopped).continue_(wait=False)

    async def _note_values(self, session: Session, place: Place, ranks: RankSet) -> None:
        """Add the values of the expressions to the time line."""
        for expression in place.expressions:
            answer = await session.ranks(ranks).evaluate(expression)
            for each in answer.classes[:MOST_VALUES]:
                record = each.filled
                text = record.text if isinstance(record, Value) else failures_text([each])
                self._add("value", f"{place.location}: {expression} = {text}", each.ranks)
            if left := len(answer.classes) - MOST_VALUES:
                if left > 0:
                    self._add("value", f"{expression}: {left} more values", answer.ranks)

    async def _check(self, session: Session, place: Place, ranks: RankSet) -> bool:
        """Check a condition; return whether the run goes on."""
        found = await session.ranks(ranks).check_that(place.check)
        if found.ok:
            return True
        failing, what = check_in_words(place, found)
        if what in self._unchecked:
            return True
        if not failing:
            self._unchecked.add(what)
            failing = ranks - found.passed
        self._add("check", what, failing, is_error=True)
        cause = Cause(kind="check", what=what, who=str(failing), where=place.location)
        if self._report is None or self._report.cause.what in self._unchecked:
            self._report = await self._collect(session, cause)
            await self._publisher.write(self._report)
        if self._options.then == "kill" and what not in self._unchecked:
            self._ended_by_us = True
            return False
        return True

    async def _on_trigger(self, session: Session, trigger: Trigger) -> bool:
        await session.ranks(session.state.running).interrupt()
        is_note = trigger.kind in ("request", "snapshot")
        cause = Cause(
            kind="request" if is_note else trigger.kind,
            what=trigger.text,
            who=str(session.set),
            severity="note" if is_note else "error",
        )
        self._add(trigger.kind, trigger.text, session.set, is_error=not is_note)
        report = await self._collect(session, cause)
        if is_note:
            self._requests += 1
            await self._publisher.write(report, self._requests)
            self._occasions.written()
            await self._continue(session)
            return True
        self._report = report
        await self._publisher.write(report)
        if trigger.kind == "ended":
            self._ended_by_us = True
            return False
        if self._options.then == "kill":
            self._ended_by_us = True
            return False
        await self._continue(session)
        return True

    async def _on_quiet(self, session: Session) -> bool:
        """Look whether ranks make progress; return whether the run goes on."""
        limit_s = self._options.hang_after_s
        since = self._last_s
        await session.ranks(session.state.running).interrupt()
        moved = await look_for_progress(
            session, Running(limit_s / (2 * SAMPLES), lambda: self._last_s > since)
        )
        if moved.work:
            self._add("notice", computing_text(moved.work), moved.ranks)
        if not moved.ranks:
            cause = Cause(kind="hang", what="", who=str(session.set), severity="warning")
            report = await self._collect(session, cause, watches=True)
            text = hang_text(limit_s, "", report, loops=moved.loops)
            self._add("hang", text, session.set, is_error=True)
            said = "\n".join(each.text for each in report.output)
            cause = with_words_of_job(replace(report.cause, what=text), said)
            self._report = self._with_record(replace(report, cause=cause))
            await self._publisher.write(self._report)
            if self._options.then == "kill":
                self._ended_by_us = True
                return False
        self._last_s = max(self._last_s, time.monotonic())
        if not moved.ranks:
            self._reported_s = self._last_s
        await self._continue(session)
        return True

    async def _then(self, session: Session) -> bool:
        """Let ranks die that are about to, or end the job."""
        if self._options.then == "kill":
            self._ended_by_us = True
            return False
        if live := session.state.live:
            await session.ranks(live).detach()
        if session.job is not None:
            await session.job.wait()
        return False

    # -- reports -----------------------------------------------------------------------------------

    def _add(self, kind: str, text: str, ranks: RankSet, *, is_error: bool = False) -> None:
        self._last_s = time.monotonic()
        self._events.append(
            TimedEvent(time=time.time(), kind=kind, text=text, ranks=str(ranks), is_error=is_error)
        )

    async def _collect(
        self, session: Session, cause: Cause | None, *, watches: bool = False
    ) -> Report:
        """Return a report; the stops say the cause if none is given.

        With *watches*, ranks that wait run for a moment, which shows whether they hang.
        """
        await self._note_traces(session)
        report = await collect(session, mode="run", watches=watches)
        if cause is not None:
            where = cause.where or (report.cause.where if cause.kind == "hang" else "")
            report = replace(report, cause=replace(cause, where=where))
        if session.all_have_ended:
            report = replace(report, notes=(*report.notes, *self._never_reached()))
        return self._with_record(report)

    def _never_reached(self) -> list[str]:
        """Name the locations that no rank has come to: nothing was checked there."""
        return [
            f"no rank has come to {each.location}"
            + (f", so that {each.check!r} was never checked" if each.check else "")
            for places in self._places.values()
            for each in places
            if each not in self._reached
        ]

    def _with_record(self, report: Report) -> Report:
        events = {*report.timeline, *self._events}
        return replace(
            report,
            timeline=tuple(sorted(events, key=lambda each: each.time)),
            notes=tuple(dict.fromkeys((*report.notes, *self._notes))),
        )

    async def _note_traces(self, session: Session) -> None:
        """Add the last rows of the traces to the time line."""
        for each in session.traces:
            try:
                table = await session.ranks(session.set).trace_table(each.number)
            except PgdbError:
                continue
            self._events = [event for event in self._events if event.kind != f"trace {each.number}"]
            for row in trace_text.table_text(table).splitlines():
                self._add(f"trace {each.number}", row, session.set)

    async def _conclude(self, session: Session) -> int:
        """Write the last report; return the exit status."""
        assert self._report is not None
        report = self._with_record(self._report)
        status = session.job.process.returncode if session.job is not None else None
        report = replace(report, job=replace(report.job, exit_code=status))
        # hydra's launcher can leave with 0 when a signal has ended it.
        ended_well = status == 0 and not self._ended_by_us
        if ended_well and report.cause.kind in exit_status.BEFORE_THE_END:
            what = f"{report.cause.what}; the job ended well later"
            report = replace(report, cause=replace(report.cause, what=what))
        is_event = report.cause.kind != "none"
        await self._publisher.write(report)
        self._publisher.conclude(report, is_event=is_event)
        if self._options.exit_code == "job" and status is not None:
            return exit_status.of_job(status)
        return exit_status.of_report(report.cause.kind, ended_well=ended_well)


def _ended_badly(session: Session) -> RankSet:
    """Return the ranks that have ended by a signal, or with a status other than 0."""
    return RankSet.union(
        each.ranks
        for each in session.state.latest(session.state.exited)
        if isinstance(each.record, Exit) and (each.record.signal or each.record.code)
    )


def _end_at_signals() -> list[str]:
    """Let signals that end the job cancel this task; return the list that gets their names."""
    came: list[str] = []
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end(number: signal.Signals) -> None:
        came.append(number.name)
        task.cancel()

    for number in _ENDING:
        loop.add_signal_handler(number, end, number)
    return came


def _require(answer: Answer, what: str) -> None:
    """Raise unless a rank has done as it was asked.

    :raises StartError: with the reasons of the ranks.
    """
    failed = RankSet.union(each.ranks for each in answer.errors)
    if failed and failed == answer.ranks - answer.missing.ranks:
        raise StartError(f"{what} cannot be used: {failures_text(answer.errors)}")
