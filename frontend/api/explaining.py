"""The reasons why ranks wait: look at their calls, let them run for a moment, look again.

One look does not separate a deadlock from a message in flight: in both, two ranks may wait for each
other. So the ranks in question run for a moment, each with a temporary breakpoint of GDB's behind
its call. A message in flight lets a call return, and the rank stops there. Ranks that wait for each
other stay where they are. Only ranks run that were stopped from outside; at the end all are stopped
so again, and ranks that ran before run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pgdb.errors import PgdbError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.flight_records import group_states
from pgdb.frontend.analysis.why import flight
from pgdb.frontend.analysis.why.busy import KINDS
from pgdb.frontend.analysis.why.deadlocks import ALL_WORLDS_HERE, OTHER_WORLD
from pgdb.frontend.analysis.why.explain import Explanation, explain, slow, suspects, with_flight
from pgdb.frontend.analysis.why.parties import (
    Elsewhere,
    is_one_sided,
    is_passing,
    is_read,
)
from pgdb.frontend.analysis.why.verdict import Step
from pgdb.frontend.analysis.why.waiting import Watch
from pgdb.frontend.api import call_frames, elsewheres, polls
from pgdb.frontend.api.elsewheres import FROM_OUTSIDE, is_in_call, ranks_in
from pgdb.frontend.api.job_state import BY_USER
from pgdb.frontend.api.notifications import was_interrupted
from pgdb.frontend.api.polls import (
    READS,
    PollSearch,
    PollWatch,
    is_poll,
    sleeping,
    with_polls,
    with_statuses,
)
from pgdb.frontend.api.sampling import go_on, stop_for_look
from pgdb.frontend.api.watch_times import WHY_S
from pgdb.frontend.store import flight_files
from pgdb.frontend.store.script_calls import JOB, call_text
from pgdb.frontend.system import deadline, durations
from pgdb.frontend.system.shielding import to_its_end
from pgdb.merge.classes import EquivalenceClass
from pgdb.mpi_calls import MpiCallStatus
from pgdb.overlay.messages import RunWord
from pgdb.ranks import RankSet
from pgdb.records import Record, Running, Stop, is_error

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

_PATIENCE = 5
_MOST_PATIENCE_S = 5.0
_GLANCE_S = 0.2
_RUN = ("why",)
_CORES_STAND = Step("core files do not run, so that nobody can see whether a message was in flight")
_AT_SIGNALS = Step(
    "a signal may end a rank that runs on, so that 'why' lets none run that a signal has stopped; "
    "let them go on without the signal, and interrupt them",
    ("signal 0", "interrupt", "why"),
)


def patience_s(watch_s: float) -> float:
    """Return the time to watch ranks that wait for one outside MPI, which may only be slow."""
    return max(watch_s, min(_PATIENCE * watch_s, _MOST_PATIENCE_S))


class Why(msgspec.Struct, frozen=True):
    """An explanation, and the answer that it rests on."""

    explanation: Explanation
    answer: Answer


async def explain_waits(
    session: Session,
    *,
    look_only: bool = False,
    watch_s: float = WHY_S,
    elsewhere: Sequence[Elsewhere] = (),
) -> Why:
    """Explain why ranks of the session wait.

    *elsewhere* are ranks that the caller knows more of, such as those that ended before the
    session.

    With *look_only*, stopped ranks stay stopped. Ranks that run are stopped for the look in any
    case, and run on afterwards.

    :raises UsageError: if *watch_s* is no time.
    """
    durations.check(watch_s, f"why: {watch_s:g} s")
    line = call_text("why", look_only=look_only, watch_s=watch_s)
    with (
        session.one_call(f"{JOB}.{line}"),
        session.hushed(session.set, _is_ours),
        session.all_barriers.paused(),
    ):
        explainer = _Explainer(session, elsewhere, look_only=look_only, watch_s=watch_s)
        found = await explainer.run()
    if session.is_recorded or session.mode == "core":
        return found
    if await _has_all_worlds(session, found.explanation):
        found = Why(_with_step(found.explanation, ALL_WORLDS_HERE, OTHER_WORLD), found.answer)
    records = await asyncio.to_thread(flight_files.of_job, session.table.processes)
    explanation = with_flight(found.explanation, flight.verdicts(group_states(records)))
    return Why(explanation, found.answer)


def _is_ours(stop: Stop) -> bool:
    return was_interrupted(stop) or stop.reason == "location-reached"


class _Explainer:
    """One explanation: looks, and the run between them."""

    def __init__(
        self, session: Session, known: Sequence[Elsewhere], *, look_only: bool, watch_s: float
    ) -> None:
        self._session = session
        self._known = known
        self._state = session.state
        self._look_only = look_only or session.is_recorded
        self._watch_s = watch_s
        self._borrowed = RankSet()
        """The ranks that ran before, and run on at the end. A held one goes on to its next stop."""

    async def run(self) -> Why:
        """Look at the calls of all ranks, and explain them."""
        session = self._session
        self._borrowed = borrowed = session.set & self._state.running
        with session.passing.borrowed(borrowed, _is_ours) as passing:
            try:
                if borrowed and not session.is_recorded:
                    await to_its_end(stop_for_look(session, borrowed))
                return await self._explain()
            finally:
                # Ranks that have stopped with others meanwhile stay stopped.
                if borrowed:
                    await to_its_end(go_on(session, passing.ranks))

    async def _explain(self) -> Why:
        session = self._session
        answer = await self._look()
        elsewhere = self._elsewhere(answer)
        chosen = suspects(answer.classes, elsewhere) & self._movable
        if chosen and not self._look_only:
            ran = _Run(session, answer, chosen, self._look)
            expected = self._expected(answer, chosen).verdicts
            is_slow = any(each.kind in KINDS for each in expected)
            await ran.watch(self._watch_s, patience_s(self._watch_s) if is_slow else 0.0)
            answer = await self._look()
            elsewhere = self._elsewhere(answer)
            looked = with_polls(answer.classes, ran.polls)
            looked = with_polls(looked, ran.reads, is_one_sided)
            outcome = ran.outcome(answer)
            found = explain(looked, elsewhere, outcome, self._held)
            if loops := await self._loops(found):
                looked = with_statuses(looked, loops)
                found = explain(looked, elsewhere, outcome, self._held)
            if ran.is_late:
                found = slow(self._expected(ran.before, chosen), found)
            return Why(found, answer)
        found = explain(answer.classes, elsewhere, held_ranks=self._held)
        if session.mode == "core":
            found = _with_step(found, _CORES_STAND)
        elif not self._signalled.isdisjoint(ranks_in(answer, is_in_call)):
            found = _with_step(found, _AT_SIGNALS)
        return Why(found, answer)

    def _expected(self, before: Answer, chosen: RankSet) -> Explanation:
        """Return the explanation if none of the ranks moves."""
        watch = Watch(still=chosen, seconds=self._watch_s)
        return explain(before.classes, self._elsewhere(before), watch, self._held)

    async def _look(self) -> Answer:
        with deadline.renewed():
            return await self._session.ranks(self._session.set - self._absent).mpi_calls(
                arrived=True
            )

    async def _loops(self, found: Explanation) -> Sequence[EquivalenceClass[Record]]:
        """Return the statuses of ranks that others wait for, and that may never leave a loop."""
        ranks = RankSet.union(
            each.ranks
            for each in found.verdicts
            if each.kind in KINDS and each.confidence != "certain"
        )
        if not (ranks := ranks & self._movable):
            return ()
        with deadline.renewed():
            answer: Answer = await self._session.ranks(ranks).mpi_calls(loops=True)
        return [
            each
            for each in answer.classes
            if isinstance(each.record, MpiCallStatus) and each.record.loop
        ]

    @property
    def _absent(self) -> RankSet:
        state = self._state
        return state.exited | state.lost | state.detached

    @property
    def _signalled(self) -> RankSet:
        """The ranks that a signal which is no error has stopped."""
        state = self._state
        return RankSet.union(
            each.ranks
            for each in state.latest(state.stopped)
            if isinstance(each.record, Stop) and each.record.signal and not is_error(each.record)
        )

    @property
    def _movable(self) -> RankSet:
        """The ranks that may run for a moment: those that PGDB has stopped from outside."""
        state = self._state
        return RankSet.union(
            each.ranks
            for each in state.latest(state.stopped)
            if isinstance(each.record, Stop)
            and each.record.reason in FROM_OUTSIDE
            and not each.record.was_stopped
        ) - (state.held_for.get(BY_USER, RankSet()) - self._borrowed)

    @property
    def _held(self) -> RankSet:
        """The ranks that stand still until the user releases them, without those in an error."""
        state = self._state
        errors = RankSet.union(
            each.ranks
            for each in state.latest(state.stopped)
            if isinstance(each.record, Stop) and is_error(each.record)
        )
        return state.held & state.stopped - self._borrowed - errors

    def _elsewhere(self, answer: Answer) -> tuple[Elsewhere, ...]:
        found = elsewheres.found(
            self._session,
            answer,
            absent=self._absent,
            signalled=self._signalled,
            held=self._held,
        )
        return (*self._known, *found)


async def _has_all_worlds(session: Session, explanation: Explanation) -> bool:
    """Return whether an explanation advises to add a world, and no further world is there."""
    if len(session.worlds) < 2 or all(each.step != OTHER_WORLD for each in explanation.verdicts):
        return False
    try:
        return not await session.all_worlds.look()
    except PgdbError:
        return False  # nobody knows


def _with_step(explanation: Explanation, step: Step, before: Step | None = None) -> Explanation:
    """Return an explanation with another step in place of the step *before*, or of the advice to
    let the ranks run."""
    verdicts = tuple(
        msgspec.structs.replace(each, step=step)
        if (each.step == before if before is not None else each.commands == _RUN)
        else each
        for each in explanation.verdicts
    )
    return msgspec.structs.replace(explanation, verdicts=verdicts)


class _Run:
    """A run of ranks that is watched."""

    def __init__(
        self,
        session: Session,
        before: Answer,
        chosen: RankSet,
        look: Callable[[], Awaitable[Answer]],
    ) -> None:
        self._session = session
        self._state = session.state
        self._look = look
        self.before = before
        self.is_late = False
        """Whether a call returned only after the time of the watch."""
        self._chosen = chosen
        self._advanced = RankSet()
        """Ranks that stop when their call returns."""
        self._returned = RankSet()
        self._ran = RankSet()
        self._seconds = 0.0
        self.polls: tuple[EquivalenceClass[Record], ...] = ()
        """The tests and probes that ranks make one after the other, or between which they sleep."""
        self.reads: tuple[EquivalenceClass[Record], ...] = ()
        """The places of windows that ranks read again and again."""

    async def watch(self, watch_s: float, longest_s: float) -> None:
        """Let the ranks run for *watch_s* seconds, and stop them again.

        If no call has returned by then, they run until one returns, or *longest_s* in all.
        """
        session, state = self._session, self._state
        begun_s = time.monotonic()
        try:
            await self._search_reads()
            if self.reads:
                longest_s = patience_s(watch_s)
            ready = await self._select_calls()
            begun_s = time.monotonic()
            if ready:
                self._advanced = await self._start("advance", "*$pc", ready)
            self._ran = self._advanced
            tests = PollWatch(session, self.before.classes, self._chosen)
            others = (self._chosen - self._advanced - tests.ranks) & state.stopped
            if others:
                self._ran = self._ran | await self._start("continue", "", others)
            for turn in range(tests.turns):
                self._advanced = self._advanced | await tests.start(turn)
                self._ran = self._ran | self._advanced
                waited_for = self._advanced or self._ran
                await session.runs.wait_stopped("why", waited_for, timeout_s=watch_s / tests.turns)
            waited_for = self._advanced or self._ran
            asleep = sleeping(self.before.classes) & self._ran if longest_s else RankSet()
            search = PollSearch(session, asleep, tests.ranks & state.running)
            while waited_for <= state.running:
                if not await search.step():
                    is_over = time.monotonic() - begun_s >= longest_s
                    if is_over or search.polling & asleep:
                        break
                    await session.runs.wait_stopped("why", waited_for, timeout_s=_GLANCE_S)
                self.is_late = bool(longest_s) and not waited_for <= state.running
            self.polls = () if self.is_late else search.polls
            self._seconds = time.monotonic() - begun_s
        finally:
            await to_its_end(self._stop())

    async def _search_reads(self) -> None:
        """Find the ranks in one-sided calls that read one place of a window again and again."""
        ranks = ranks_in(self.before, is_one_sided) & self._chosen
        if not ranks:
            return
        search = PollSearch(self._session, ranks, RankSet(), READS, is_read)
        # A one-sided call may return only while its target runs.
        self._ran = self._chosen
        if others := self._chosen - ranks:
            await self._start("continue", "", others)
        while not ranks <= search.polling and await search.step():
            pass
        await self._interrupt()
        # A rank that comes back to an equal read does so until another rank writes there.
        self.reads = tuple(
            EquivalenceClass(each.ranks, msgspec.structs.replace(each.record, loop="spins"))
            for each in search.polls
            if isinstance(each.record, MpiCallStatus)
        )
        self.before = await self._look()

    async def _select_calls(self) -> RankSet:
        """Select, on each rank in a call, the frame that has called MPI; return those ranks."""
        by_call: dict[tuple[str, str], RankSet] = {}
        for each in self.before.classes:
            status, ranks = each.record, (each.ranks & self._chosen) - _all_ranks(self.reads)
            if not ranks or not isinstance(status, MpiCallStatus) or status.call is None:
                continue
            if status.state != "in_call" or status.call.thread:
                continue
            if is_poll(status) or is_passing(status):
                continue
            key = (status.call.function, _function(status))
            by_call[key] = by_call.get(key, RankSet()) | ranks
        found = []
        for (function, place), ranks in by_call.items():
            left = ranks
            for lines in call_frames.lines_to(function, place):
                if left:
                    selected = await self._select(lines, left)
                    found.append(selected)
                    left = left - selected
        return RankSet.union(found)

    async def _select(self, lines: Sequence[str], ranks: RankSet) -> RankSet:
        for line in lines:
            if ranks:
                view = self._session.ranks(ranks)
                is_up = line == polls.UP
                answer = await (view.execute_plain(line) if is_up else view.select_frame(line))
                failed = RankSet.union(part.ranks for part in answer.errors)
                ranks = ranks - failed - answer.missing.ranks
        return ranks

    async def _start(self, word: RunWord, argument: str, ranks: RankSet) -> RankSet:
        answer = await self._session.runs.start(word, argument, ranks, held_too=True)
        return RankSet.union(
            each.ranks for each in answer.classes if isinstance(each.record, Running)
        )

    async def _stop(self) -> None:
        """Stop all ranks that run, where they are."""
        await self._interrupt()
        # A signal stops a rank where it is, in its call.
        there = self._where("interrupted", "signal-received") | self._state.running
        self._returned = self._advanced - there
        # A rank behind its call counts as stopped from outside again, as the others do.
        if moved := self._returned & self._where("location-reached"):
            with deadline.unlimited():
                await self._start("continue", "", moved)
            await self._interrupt()

    async def _interrupt(self) -> None:
        if running := self._ran & self._state.running:
            with deadline.unlimited():
                await stop_for_look(self._session, running)

    def _where(self, *reasons: str) -> RankSet:
        return RankSet.union(
            each.ranks
            for each in self._state.latest(self._ran & self._state.stopped)
            if isinstance(each.record, Stop) and each.record.reason in reasons
        )

    def outcome(self, after: Answer) -> Watch:
        """Return the ranks that have moved, and those that have not; *after* is the second look.

        A rank that GDB could not stop behind its call has moved if it is in another one now.
        """
        reading = _all_ranks(self.reads) & (
            ranks_in(after, is_one_sided) | ranks_in(after, _is_outside)
        )
        still = self._advanced - self._returned | _all_ranks(self.polls) | reading
        for rank_set, before, now in self._pairs(after, self._ran - self._advanced):
            # A loop comes back to an equal call. Only a stop behind a call shows that it returned.
            # A process makes a call at the beginning or the end of MPI once.
            call = before.call
            is_seen = call is None or bool(call.thread) or call.kind in ("init", "finalize")
            if is_seen and before.state == now.state and _place(before) == _place(now):
                still = still | rank_set
            elif is_passing(before) or is_passing(now):
                # A call that waits for nobody is work, as computing is.
                is_busy = all(each.call is None or is_passing(each) for each in (before, now))
                if is_busy and _function(before) == _function(now):
                    still = still | rank_set
        return Watch(still=still, moved=self._returned, seconds=round(self._seconds, 1))

    def _pairs(
        self, after: Answer, ranks: RankSet
    ) -> Iterator[tuple[RankSet, MpiCallStatus, MpiCallStatus]]:
        for old in self.before.classes:
            for new in after.classes:
                both = old.ranks & new.ranks & ranks
                if not both:
                    continue
                if isinstance(old.record, MpiCallStatus) and isinstance(new.record, MpiCallStatus):
                    yield both, old.record, new.record


def _all_ranks(classes: Sequence[EquivalenceClass[Record]]) -> RankSet:
    return RankSet.union(each.ranks for each in classes)


def _is_outside(status: MpiCallStatus) -> bool:
    return status.state == "outside"


def _function(status: MpiCallStatus) -> str:
    return status.where.function if status.where is not None else ""


def _place(status: MpiCallStatus) -> object:
    """Return what stays equal as long as a rank stays in one call, or in one function."""
    return (_function(status), status.calls if status.state == "in_call" else status.activity)
