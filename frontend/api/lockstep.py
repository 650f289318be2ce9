"""Lockstep: ranks step together until their ways part.

Each step is one request to all ranks, and one for where they have stopped then. All decisions are
about classes of ranks, so that a step of many ranks costs what a step of few costs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.meeting_ways import MOST_FRAMES, way_together
from pgdb.frontend.analysis.ways import Way, listed, ways_of
from pgdb.frontend.api.group_runs import GroupEnd, GroupRun, Limits
from pgdb.frontend.api.programs import programs_of
from pgdb.frontend.system import deadline
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import Backtrace, RunWord, SelectFrame
from pgdb.ranks import RankSet
from pgdb.records import Record, Stack, Stop

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

MOST_STEPS = 1_000_000_000
LOCKSTEP_WORDS: tuple[RunWord, ...] = ("step", "next", "stepi", "nexti", "finish", "until")
"""The run commands that keep ranks together."""
DIVERGE_WORDS: tuple[RunWord, ...] = ("step", "next", "stepi", "nexti")
"""The run commands that are steps of ``until-diverge``."""
_BY_INSTRUCTION = ("stepi", "nexti")
_OF_SELECTED_FRAME = ("finish", "until")
"""Commands that GDB carries out for the selected frame, which ``up`` may have changed."""
STEPPED = frozenset({"end-stepping-range", "function-finished", "location-reached"})
"""Reasons of stops that complete a step."""


class Lockstep(msgspec.Struct, frozen=True):
    """The outcome of steps that ranks took together."""

    command: str
    """Command as a user would type it."""
    ranks: RankSet
    """The ranks that were kept together."""
    steps: int
    """Number of steps after which all ranks were at one place."""
    end: GroupEnd
    """The reason for the end."""
    starts: tuple[Way, ...]
    """The places at which they stood before the last step, that of most ranks first. It is one
    place, but for the first step of ``finish`` and of ``until`` with a location."""
    ways: tuple[Way, ...]
    """The places at which they stand now, that of most ranks first. Ranks that still run, that have
    ended or are lost stand nowhere."""
    answer: Answer
    """Answer to the last step: the stops and ends, and the ranks that are missing."""

    @property
    def start(self) -> Way:
        """The place at which most ranks stood before the last step, with these ranks."""
        return self.starts[0]

    @property
    def are_together(self) -> bool:
        """Whether all ranks stand at one place."""
        return len(self.ways) == 1 and self.ways[0].ranks == self.ranks


async def step_together(
    session: Session,
    ranks: RankSet,
    word: RunWord,
    argument: str = "",
    *,
    count: int = 1,
    command: str = "",
    timeout_s: float | None = None,
    settle_s: float | None = None,
    is_given_up: Callable[[], bool] = lambda: False,
) -> Lockstep:
    """Step *ranks* together *count* times, or until their ways part.

    :raises UsageError: if there is no such step, or *ranks* cannot be kept together: some run, or
        they are at several places.
    :raises CommandError: if no rank is stopped, or their places cannot be compared.
    """
    if word not in LOCKSTEP_WORDS:
        raise UsageError(f"'{word}' cannot be a step; {', '.join(LOCKSTEP_WORDS)} can")
    if not 1 <= count <= MOST_STEPS:
        raise UsageError(f"{count} is no number of steps; 1 to {MOST_STEPS} are")
    if word == "finish" and count != 1:
        raise UsageError(f"lockstep: 'finish' takes no number of steps, not {count}")
    if argument and word != "until":
        raise UsageError(f"lockstep: '{word}' takes no argument, not {argument!r}")
    line = command or " ".join(part for part in (word, argument, "--lockstep") if part)
    limits = Limits(timeout_s, settle_s, is_given_up)
    return await _Lockstep(session, ranks, word, argument, line, limits).step(count)


class _Lockstep(GroupRun):
    """Ranks that are kept together."""

    def __init__(
        self,
        session: Session,
        ranks: RankSet,
        word: RunWord,
        argument: str,
        command: str,
        limits: Limits,
    ) -> None:
        super().__init__(session, ranks, command, limits)
        self._word: RunWord = word
        self._argument = argument
        self._programs: dict[str, RankSet] = {}

    async def step(self, count: int) -> Lockstep:
        """Step *count* times, or until there is a reason to end."""
        self._programs = await programs_of(self._session, self.ranks)
        ways = await self._places()
        await self._check(ways)
        end: GroupEnd = "complete"
        steps, starts = 0, ways
        with self._session.hushed(self.ranks, is_step):
            while end == "complete" and steps < count:
                if (end := self.reason_not_to_run()) != "complete":
                    break
                starts = ways
                with deadline.renewed():
                    end = await self.run(self._word, self._argument, is_step)
                    ways = await self._places_behind()
                if end == "complete":
                    end = self._end_by_sight(ways)
                do_all_stand = not self.answer.missing.running
                if end in ("complete", "stopped") and len(ways) > 1 and do_all_stand:
                    end = "parted"
                steps += end == "complete"
        return Lockstep(
            command=self._command,
            ranks=self.ranks,
            steps=steps,
            end=end,
            starts=starts,
            ways=ways,
            answer=self._with_lost(ways) if end == "lost" else self.answer,
        )

    def _end_by_sight(self, ways: tuple[Way, ...]) -> GroupEnd:
        """Return the reason to end behind a complete step if a rank has no place."""
        unseen = self.ranks - RankSet.union(way.ranks for way in ways)
        if not unseen:
            return "complete"
        if deadline.is_over() and unseen <= self._session.state.stopped:
            return "timeout"  # the time limit has cut the answer that has their places
        return "lost"  # a rank was detached, or its debugger died, after its step

    def _with_lost(self, ways: tuple[Way, ...]) -> Answer:
        """Return the answer with the ranks that have no place any longer as lost ones."""
        answer, missing = self.answer, self.answer.missing
        known = RankSet.union(way.ranks for way in ways) | missing.running | missing.late
        ended = RankSet.union(
            each.ranks for each in answer.classes if not isinstance(each.record, Stop)
        )
        return replace(
            answer, missing=missing | Missing(lost=self.ranks - known - ended - missing.held)
        )

    @property
    def _has_one_program(self) -> bool:
        return len(self._programs) <= 1

    async def _places(self) -> tuple[Way, ...]:
        """Ask the ranks that are stopped for their places."""
        session = self._session
        stopped = self.ranks & session.state.stopped
        if not stopped:
            return ()
        if self._word in _OF_SELECTED_FRAME:
            answer = await session.ask("frame", SelectFrame(command="frame"), stopped, is_own=True)
        else:
            operation = Backtrace(limit=1, offsets=True)
            answer = await session.ask("backtrace 1", operation, stopped, is_own=True)
        return self._ways_of(answer.classes)

    async def _places_behind(self) -> tuple[Way, ...]:
        """Ask the ranks for their places behind a step; an interrupted one is where its stop says.

        It is inside a library mostly, and the stop has the frame of the user's.
        """
        ways, state = await self._places(), self._session.state
        interrupted = RankSet()
        stacks: list[EquivalenceClass[Record]] = []
        for each in state.latest(self.ranks & state.stopped):
            stop = each.filled
            if isinstance(stop, Stop) and stop.reason == "interrupted" and stop.frame is not None:
                interrupted |= each.ranks
                stacks.append(EquivalenceClass(each.ranks, Stack((stop.frame,))))
        left = [replace(way, ranks=way.ranks - interrupted) for way in ways]
        places = (*(way for way in left if way.ranks), *self._ways_of(stacks))
        return tuple(sorted(places, key=lambda way: (-len(way.ranks), way.ranks.first)))

    def _ways_of(self, classes: Iterable[EquivalenceClass[Record]]) -> tuple[Way, ...]:
        return ways_of(classes, by_offset=self._word in _BY_INSTRUCTION)

    async def _check(self, ways: tuple[Way, ...]) -> None:
        """Check that the ranks can be kept together.

        :raises UsageError: if they are at several places.
        :raises CommandError: if their places are unknown, or cannot be compared.
        """
        known = RankSet.union(way.ranks for way in ways)
        if unknown := self.ranks - known:
            raise CommandError(f"{self._command}: PGDB cannot see where [{unknown}] stands")
        blind = [way for way in ways if not way.line]
        if not self._has_one_program and blind:
            raise CommandError(
                f"{self._command}: the ranks run several programs, and {listed(blind)} "
                f"has no line information, so that their ways cannot be compared; {self._apart()}"
            )
        if len(ways) == 1:
            return
        functions = {(way.function, way.file) for way in ways}
        is_one_function = len(functions) == 1
        if self._word == "until" and self._argument:
            return
        if self._word == "finish" and is_one_function:
            return
        what = "several lines" if is_one_function else "several functions"
        if not self._has_one_program:
            raise UsageError(
                f"{self._command}: the ranks are in {what} of several programs: {listed(ways)}; "
                f"only ranks at the same line of a function step together; {self._apart()}"
            )
        operation = Backtrace(limit=-MOST_FRAMES, offsets=True)
        answer = await self._session.ask("backtrace", operation, self.ranks, is_own=True)
        raise UsageError(
            f"{self._command}: the ranks are in {what}: {listed(ways)}; "
            f"{way_together(answer.classes)}; "
            f"'proc {ways[0].ranks} {self._command}' steps [{ways[0].ranks}] only"
        )

    def _apart(self) -> str:
        """Return the way to step each of several programs by itself."""
        names = {name: os.path.basename(name) for name in self._programs}
        if len(set(names.values())) < len(names):
            names = {name: name for name in names}
        programs = ", ".join(f"[{ranks}] {names[name]}" for name, ranks in self._programs.items())
        return f"'proc SET {self._command}' steps one program by itself: {programs}"


def is_step(stop: Stop) -> bool:
    """Return whether a stop completes a step."""
    return stop.reason in STEPPED
