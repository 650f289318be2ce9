"""Barriers: breakpoints at which ranks are held until all ranks of the barrier have come.

A barrier is a breakpoint of the job. Its ranks are held at it (:attr:`JobState.held_for`) when they
arrive, and released when no further rank is to come. Everything is decided about classes of ranks,
when events come, so that a barrier of many ranks costs what their stops cost.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api import absentees, held_waits, whereabouts
from pgdb.frontend.api.absentees import Absent, Barrier, BarrierThen
from pgdb.frontend.api.arrivals import at_others
from pgdb.frontend.api.barrier_points import Point, check_change
from pgdb.frontend.api.breakpoint_making import why_none
from pgdb.frontend.api.breakpoint_numbers import last_made
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.main_entry import past_main
from pgdb.frontend.api.notifications import BarrierEvent, BarrierNews, Events
from pgdb.frontend.api.passing import Passing
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, stopped_at

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

MOST_TIMES = 1_000_000_000
QUIET_S = 1.0
"""Time without an event after which PGDB looks where the ranks are that have not come."""
_MOST_QUIET_S = 64.0
_GO_ON_TIMEOUT_S = 30.0
_Classes = tuple[EquivalenceClass[Record], ...]


class _Seen(msgspec.Struct, frozen=True):
    """The calls of MPI at a look."""

    at_s: float = 0.0
    awaited: object = None
    """The ranks that were waited for, and those that stood."""
    calls: _Classes = ()


class Barriers:
    """The barriers of a session."""

    def __init__(self, core: Core, session: Session) -> None:
        self._core = core
        self._session = session
        self._points: dict[int, Point] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        """The look at the others that is in flight."""
        self._seen = _Seen()
        self._awaited: object = None
        """The ranks that were waited for when the timer was started."""
        self.quiet_s = QUIET_S
        """Time without an event after which PGDB looks where the others are."""
        self._delay_s = QUIET_S
        self._pauses = 0
        self._is_due_later = False
        """Whether to start the timer after the last pause."""

    # -- calls -------------------------------------------------------------------------------

    @property
    def all(self) -> tuple[Barrier, ...]:
        """The barriers by number, without those that are deleted."""
        return tuple(self._shown(each) for each in self._points.values() if not each.is_over)

    def get(self, number: int) -> Barrier:
        """Return a barrier, also one that is deleted.

        :raises UsageError: if there was none of this number.
        """
        if (point := self._points.get(number)) is None:
            there = ", ".join(str(each.number) for each in self.all) or "none"
            raise UsageError(f"there is no barrier {number}; there are: {there}")
        return self._shown(point)

    def check_change(self, command: str, numbers: Sequence[str]) -> None:
        """Check that a change of breakpoints leaves each barrier one."""
        check_change(self._points, command, numbers)

    async def make(
        self,
        location: str,
        ranks: RankSet,
        *,
        condition: str = "",
        then: BarrierThen = "stop",
        times: int = 0,
    ) -> tuple[Barrier, Answer]:
        """Make a barrier of *ranks*; return it, and the answer about its breakpoint.

        :raises UsageError: if it can never be met, or an argument is no value.
        :raises CommandError: if no rank has the location.
        """
        state, session = self._core.state, self._session
        if not location.strip():
            raise UsageError("a barrier needs a location: 'barrier FUNCTION', 'barrier FILE:LINE'")
        if then not in ("stop", "release"):
            raise UsageError(f"barrier: then {then!r} is neither 'stop' nor 'release'")
        if not 0 <= times <= MOST_TIMES:
            raise UsageError(f"barrier: {times} is no number of times; 0 to {MOST_TIMES} are")
        if not ranks:
            raise UsageError(f"barrier {location}: the set of ranks is empty")
        if ranks == state.ranks and state.live:
            ranks = ranks & state.live
        never = absentees.gone(state, ranks) or _nobody(ranks)
        if never := never or await past_main(session, location, ranks):
            others = ranks - RankSet.union(each.ranks for each in never)
            way_out = f"; 'barrier {location} {others}' is for the others" if others else ""
            raise UsageError(
                f"a barrier of [{ranks}] can never be met: {absentees.listed(never)}{way_out}"
            )
        line = f"break {location}{f' if {condition}' if condition else ''}"
        before = session.last_breakpoint
        answer = await session.insert_breakpoint(line, ranks, holds=True)
        failed = RankSet.union(each.ranks for each in answer.errors)
        number = last_made(answer.classes)
        if not number:
            if session.last_breakpoint > before:
                # Ranks that were lost meanwhile would get a breakpoint that is no barrier.
                await session.ranks(ranks).delete(session.last_breakpoint)
            raise CommandError(f"barrier {location}: {why_none(answer)}")
        point = Point(number, location, ranks - failed, condition, then, times)
        self._points[number] = point
        # A rank that runs can be there before the answer is.
        self._hold(point, state.named(f"bp{number}") or RankSet())
        self._core.wake()
        return self._shown(point), answer

    async def wait(self, number: int, *, met: int = 1, timeout_s: float | None = None) -> Barrier:
        """Wait until a barrier was met *met* times in all, and return it.

        It also returns after *timeout_s*, when the barrier is deleted, and when no rank that could
        come runs, or all that run seem to wait for held ranks, be they held here or for another
        reason; :attr:`Barrier.absent` says so.

        :raises UsageError: if there is no such barrier.
        """
        self.get(number)
        point, core = self._points[number], self._core
        limit_s = deadline.stops_s(timeout_s)
        end_s = None if limit_s is None else time.monotonic() + limit_s
        with self._awaiting(point):
            while point.met < met and not point.is_over and not core.is_over:
                if point.is_stuck:
                    break
                left_s = None if end_s is None else end_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    break
                await core.wait_change(left_s)
        return self._shown(point)

    @contextlib.contextmanager
    def _awaiting(self, point: Point) -> Iterator[None]:
        """Look where the ranks of a barrier are within the context, even if none has come."""
        if not point.waits and not self._arrived(point):
            # Nobody has looked at it since the last call.
            point.forget_waits()
            point.awaited, point.is_stuck = (), False
        point.waits += 1
        try:
            self.on_change()
            yield
        finally:
            point.waits -= 1

    def take_over(self, before: Barriers) -> None:
        """Make breakpoints that were barriers of an earlier launch barriers again."""
        for number, point in before._points.items():
            ranks = self._core.state.ranks
            if not point.is_over and self._core.journal.ranks_of(number):
                kept = ranks if before._core.state.ranks <= point.ranks else point.ranks & ranks
                # The times count anew, as the hits of breakpoints do.
                self._points[number] = replace(point, ranks=kept, met=0, incomplete=0, reported=())

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Say nothing about ranks that have not come while a command stops and continues them.

        Ranks that arrive or can never come count at once.
        """
        self._is_due_later |= self._stop_timer()
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                was_due, self._is_due_later = self._is_due_later, False
                self.on_change()
                if was_due and self._timer is None:
                    self._start_timer()

    # -- what happens ------------------------------------------------------------------------

    def on_events(self, news: Events) -> None:
        """Hold the ranks that have arrived."""
        for point in self._points.values():
            for each in news:
                if point.number in stopped_at(each.record):
                    self._hold(point, each.ranks)

    def on_change(self) -> None:
        """Act on a change: a rank has arrived, or will not come; a breakpoint was deleted."""
        pending = []
        for point in self._points.values():
            if not point.is_over:
                self._take_deleted(point)
        for point in self._points.values():
            # A rank without a debugger runs on; one that still stands there is announced so.
            self._core.state.release(self._core.state.lost, point.reason)
            arrived = self._arrived(point)
            never = absentees.gone(self._core.state, point.ranks)
            point.forget_returned(never, self._core.state)
            if not self._is_awaited(point):
                point.forget_waits()
                point.disabled = RankSet()
                is_on = not point.ranks <= point.disabled_on(self._core.journal)
                is_on &= not self._core.is_over
                if is_on and point.take_ends(never, self._core.state):
                    self._notify(point, "absent", never)
                continue
            out = point.ranks - RankSet.union(each.ranks for each in never) - arrived
            if not out and arrived:
                self._met(point, arrived, never)
                continue
            disabled = out & point.disabled_on(self._core.journal)
            stopped = out & self._core.state.stopped - self._core.state.passing
            if not self._pauses and point.awaited != (awaited := (arrived, out, stopped, disabled)):
                # The last report about ranks that may come is out of date.
                point.awaited, point.is_stuck = awaited, False
                point.forget_waits()
            if point.forget_outdated(self._core.state):
                self._awaited = None  # to look again
            known = RankSet.union(each.ranks for each in point.reported)
            if fresh := tuple(each for each in never if not each.ranks <= known):
                point.reported = never
                self._notify(point, "absent", fresh)
            if not self._pauses and point.disabled != disabled:
                point.disabled = disabled
                if disabled:
                    self._report(point, disabled, is_whole=False)
            point.is_stuck |= not out - disabled
            pending.append((point.number, point.awaited))
        if not self._pauses:
            self._look_soon(tuple(pending))

    def _hold(self, point: Point, ranks: RankSet) -> None:
        if not point.is_over and (come := ranks & point.ranks & self._core.state.stopped):
            self._core.state.hold(come, point.reason)
            point.has_news = True

    def _take_deleted(self, point: Point) -> None:
        """Release the ranks on which the breakpoint was deleted."""
        state = self._core.state
        have = self._core.journal.ranks_of(point.number)
        if not point.ranks & have:
            point.is_over = True
            state.release(point.ranks, point.reason)
        elif deleted := (point.ranks & state.live) - have:
            point.ranks -= deleted
            state.release(deleted, point.reason)

    def _met(self, point: Point, arrived: RankSet, never: tuple[Absent, ...]) -> None:
        """Release the ranks, all of which have come, and let them run on if that is wanted."""
        state = self._core.state
        state.release(arrived, point.reason)
        point.met += 1
        point.incomplete += bool(never)
        # The report about this meeting names those that will never come.
        point.reported, point.awaited, point.is_stuck = never, (), False
        is_last = bool(point.times) and point.met >= point.times
        # Ranks that ran on would wait for one that does not.
        has_fault = any(each.kind == "error" for each in never)
        stays = has_fault and self._core.options.stop_on_error
        # They have stopped here for the user's interrupt.
        stays |= not arrived.isdisjoint(self._session.runs.interrupted)
        going = RankSet() if point.then == "stop" or stays else arrived - state.held
        going -= at_others(state.latest(going), self._points)
        # Someone who steps would lose the job: the step is over, and 'continue' was not given.
        stepped = going & self._session.runs.stepped
        going -= stepped
        self._notify(point, "met", never, arrived, going, stepped)
        point.is_over = is_last
        if going or is_last:
            # They do not count as stopped for a command that waits for them.
            passing = self._session.passing.begin(going)
            self._core.begin(self._go_on(point, passing, deletes=is_last))

    async def _go_on(self, point: Point, passing: Passing, *, deletes: bool) -> None:
        core, session = self._core, self._session
        try:
            with deadline.unlimited(), deadline.within(_GO_ON_TIMEOUT_S):
                if deletes:
                    await session.ranks(point.ranks).delete(point.number)
                # An interrupt takes ranks out of those that are about to run.
                if run := passing.ranks & core.state.stopped - core.state.held:
                    await session.runs.start("continue", "", run)
        except PgdbError as error:
            core.note(f"{point.reason}: [{passing.ranks}] could not be set running: {error}")
        finally:
            session.passing.end(passing)

    # -- ranks that do not come --------------------------------------------------------------

    def _look_soon(self, awaited: tuple[object, ...]) -> None:
        """Look where the others are once nothing has happened for a while."""
        if awaited == self._awaited:
            return
        self._awaited = awaited
        self._delay_s = self.quiet_s
        self._start_timer()

    def _stop_timer(self) -> bool:
        """Return whether the timer was running."""
        if self._timer is None:
            return False
        self._timer.cancel()
        self._timer = None
        return True

    def _start_timer(self) -> None:
        self._stop_timer()
        if self._pauses:
            self._is_due_later = True
        elif self._awaited and not self._core.is_over:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._delay_s, self._due)

    def _due(self) -> None:
        self._timer = None
        if not self._core.is_over:
            self._begin_look()

    def _begin_look(self) -> asyncio.Task[None]:
        self._looking = look = self._core.begin(self._look())
        look.add_done_callback(self._end_look)
        return look

    def _end_look(self, look: asyncio.Task[None]) -> None:
        if self._looking is look:
            self._looking = None

    async def _look(self) -> None:
        """Look where the ranks are that have not come, and say so if it is new."""
        state, session = self._core.state, self._session
        awaited = self._awaited
        outs = {point.number: self._out(point) for point in self._points.values()}
        disabled = (point.disabled_on(self._core.journal) for point in self._points.values())
        moving = (
            RankSet.union(out - part for out, part in zip(outs.values(), disabled, strict=True))
            & state.running
            & session.runs.continued
        )
        stacks: _Classes = ()
        calls: _Classes = ()
        if moving:
            try:
                stacks, calls = await held_waits.glance(session, moving)
            except PgdbError:
                return
        before = self._calls_before(calls)
        does_one_run = False
        for point in list(self._points.values()):
            # Some may have come, or have ended, meanwhile.
            out = self._out(point)
            if not out:
                continue
            does_one_run |= not self._report(point, out, stacks, calls, before)
        self._core.wake()
        if does_one_run and awaited == self._awaited:
            self._delay_s = min(2 * self._delay_s, _MOST_QUIET_S)
            self._start_timer()

    def _calls_before(self, calls: _Classes) -> _Classes:
        """Keep the calls of a look; return those of the one before, if nothing has happened since.

        Those of the last moment are none of these, since a message may be in flight since then.
        """
        seen, now_s = self._seen, time.monotonic()
        if seen.awaited != self._awaited:
            self._seen = _Seen(now_s, self._awaited, calls)
            return ()
        if now_s - seen.at_s < self.quiet_s:
            return ()
        self._seen = _Seen(now_s, self._awaited, calls)
        return seen.calls

    async def report_now(self) -> None:
        """Say at once why ranks do not come, where others have arrived since the last report.

        A command that has run ends so with its reason, and not a moment before it is known.
        """
        self.on_change()
        state = self._core.state
        points = [each for each in self._points.values() if each.has_news and self._out(each)]
        if any(self._out(each) & (state.running | state.passing) for each in points):
            # It outlives the command: a rank that stops later has to be set running again.
            look = self._looking if self._looking is not None else self._begin_look()
            await asyncio.wait([look], timeout=whereabouts.LOOK_S)
            return
        for point in points:
            self._report(point, self._out(point))

    def _report(
        self,
        point: Point,
        out: RankSet,
        stacks: _Classes = (),
        calls: _Classes = (),
        before: _Classes = (),
        *,
        is_whole: bool = True,
    ) -> bool:
        """Say why the ranks *out* have not come, if it is new; return whether none may come.

        They are all that have not come if *is_whole*.
        """
        state, journal = self._core.state, self._core.journal
        disabled = out & point.disabled_on(journal)
        absent = (
            *absentees.gone(state, point.ranks),
            *((absentees.passing_it(disabled, point.number),) if disabled else ()),
            *absentees.waited_for(state, out - disabled, stacks, calls, journal, before),
        )
        if is_whole:
            point.is_stuck = all(each.kind != "running" for each in absent)
            point.has_news = False
        if absent != point.reported:
            point.reported, point.held = absent, state.held
            self._notify(point, "waiting", absent)
        return point.is_stuck

    # -- facts -------------------------------------------------------------------------------

    def _arrived(self, point: Point) -> RankSet:
        return point.arrived(self._core.state)

    def _shown(self, point: Point) -> Barrier:
        return point.shown(self._core.state, self._core.journal)

    def _is_awaited(self, point: Point) -> bool:
        """Return whether ranks wait at a barrier, or a caller waits for it while a rank stands.

        Where none has come and all run, the job is left alone, unless none can stop there.
        """
        state = self._core.state
        if point.is_over:
            return False
        does_one_stand = not state.ranks <= state.running | state.passing
        does_one_stand |= not point.ranks & state.live - point.disabled_on(self._core.journal)
        return bool(self._arrived(point)) or (point.waits > 0 and does_one_stand)

    def _out(self, point: Point) -> RankSet:
        """Return the ranks for which others wait at a barrier."""
        if not self._is_awaited(point):
            return RankSet()
        never = absentees.gone(self._core.state, point.ranks)
        return point.ranks - RankSet.union(each.ranks for each in never) - self._arrived(point)

    def _notify(
        self,
        point: Point,
        event: BarrierEvent,
        absent: tuple[Absent, ...],
        arrived: RankSet | None = None,
        going: RankSet = RankSet(),
        stepped: RankSet = RankSet(),
    ) -> None:
        barrier = replace(self._shown(point), absent=absent)
        if arrived is not None:
            barrier = replace(barrier, arrived=arrived)
        news = BarrierNews(barrier=barrier, event=event, going=going, stepped=stepped)
        self._core.notifier.notify(news)


def _nobody(ranks: RankSet) -> tuple[Absent, ...]:
    return () if ranks else (Absent(ranks, "ended", "no rank is left"),)
