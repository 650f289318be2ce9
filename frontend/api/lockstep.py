"""Lockstep: ranks step together until their ways part.

Each step is one request to all ranks, and one for where they have stopped then. All decisions are
about classes of ranks, so that a step of many ranks costs what a step of few costs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.ways import Way, listed, ways_of
from pgdb.frontend.system import deadline
from pgdb.merge.classes import Missing
from pgdb.overlay.messages import Backtrace, RunWord, SelectFrame
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop, is_error

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

MOST_STEPS = 1_000_000_000
LOCKSTEP_WORDS: tuple[RunWord, ...] = ("step", "next", "stepi", "nexti", "finish", "until")
"""The run commands that keep ranks together."""
_BY_INSTRUCTION = ("stepi", "nexti")
_OF_SELECTED_FRAME = ("finish", "until")
"""Commands that GDB carries out for the selected frame, which ``up`` may have changed."""
STEPPED = frozenset({"end-stepping-range", "function-finished", "location-reached"})
"""Reasons of stops that complete a step."""

LockstepEnd = Literal[
    "complete", "parted", "waiting", "ended", "error", "stopped", "interrupted", "failed", "lost"
]
"""The reason for which a lockstep has ended: all steps are complete, the ranks' ways have parted,
some ranks still run, a rank has ended, a rank has stopped for an error, a rank has stopped for
another reason (a breakpoint), the user has interrupted it, GDB has refused the step, a rank is
lost."""


class Lockstep(msgspec.Struct, frozen=True):
    """The outcome of steps that ranks took together."""

    command: str
    """Command as a user would type it."""
    ranks: RankSet
    """The ranks that were kept together."""
    steps: int
    """Number of steps after which all ranks were at one place."""
    end: LockstepEnd
    """The reason for the end."""
    start: Way
    """The place at which all ranks stood before the last step."""
    ways: tuple[Way, ...]
    """The places at which they stand now, that of most ranks first. Ranks that still run, that have
    ended or are lost stand nowhere."""
    answer: Answer
    """Answer to the last step: the stops and ends, and the ranks that are missing."""

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
    line = command or " ".join(part for part in (word, argument, "--lockstep") if part)
    group = _Group(session, ranks, word, argument, line)
    return await group.step(count, timeout_s, settle_s, is_given_up)


class _Group:
    """Ranks that are kept together."""

    def __init__(
        self, session: Session, ranks: RankSet, word: RunWord, argument: str, command: str
    ) -> None:
        self._session = session
        self._word: RunWord = word
        self._argument = argument
        self._command = command
        self.ranks, self._left_out = free_ranks(session, ranks, command)
        programs = {each.executable for each in session.table.processes if each.rank in self.ranks}
        self._has_one_program = len(programs) <= 1

    async def step(
        self,
        count: int,
        timeout_s: float | None,
        settle_s: float | None,
        is_given_up: Callable[[], bool],
    ) -> Lockstep:
        """Step *count* times, or until there is a reason to end."""
        session, begun_s = self._session, time.monotonic()
        ways = await self._places()
        self._check(ways)
        end: LockstepEnd = "complete"
        steps, start = 0, ways[0]
        answer = Answer(self._command, self.ranks, ())
        with session.hushed(self.ranks, is_step):
            while end == "complete" and steps < count:
                if is_given_up() or deadline.is_over():
                    end = "interrupted"
                    break
                left_s = None if timeout_s is None else begun_s + timeout_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    end = "interrupted"
                    break
                start = replace(ways[0], ranks=self.ranks)
                with deadline.renewed():
                    started = await session.runs.start(self._word, self._argument, self.ranks)
                    answer = await session.runs.finish(started, timeout_s=left_s, settle_s=settle_s)
                    ways = await self._places()
                end = end_of(answer, is_step)
                if end in ("complete", "stopped") and len(ways) > 1:
                    end = "parted"
                steps += end == "complete"
        return Lockstep(
            command=self._command,
            ranks=self.ranks,
            steps=steps,
            end=end,
            start=start,
            ways=ways,
            answer=replace(
                answer,
                command=self._command,
                ranks=self.ranks | self._left_out.ranks,
                missing=answer.missing | self._left_out,
                elapsed_s=time.monotonic() - begun_s,
            ),
        )

    async def _places(self) -> tuple[Way, ...]:
        """Ask the ranks that are stopped for their places."""
        session = self._session
        stopped = self.ranks & session.state.stopped
        if not stopped:
            return ()
        if self._word in _OF_SELECTED_FRAME:
            answer = await session.ask("frame", SelectFrame(command="frame"), stopped)
        else:
            answer = await session.ask("backtrace 1", Backtrace(limit=1, offsets=True), stopped)
        return ways_of(
            answer.classes,
            by_offset=self._word in _BY_INSTRUCTION,
            has_files=self._has_one_program,
        )

    def _check(self, ways: tuple[Way, ...]) -> None:
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
                "has no line information, so that their ways cannot be compared"
            )
        if len(ways) == 1:
            return
        is_one_function = len({(way.function, way.file) for way in ways}) == 1
        if self._word == "until" and self._argument:
            return
        if self._word == "finish" and is_one_function:
            return
        what = "several lines" if is_one_function else "several functions"
        raise UsageError(
            f"{self._command}: the ranks are in {what}: {listed(ways)}; "
            "'barrier LOCATION' or 'until LOCATION' brings them together, and "
            f"'proc {ways[0].ranks} {self._command}' steps [{ways[0].ranks}] only"
        )


def free_ranks(session: Session, ranks: RankSet, command: str) -> tuple[RankSet, Missing]:
    """Return those of *ranks* that can be set running together, and the others.

    :raises UsageError: if some run.
    :raises CommandError: if no rank is stopped, or all are held.
    """
    state = session.state
    if running := ranks & (state.running | state.passing):
        raise UsageError(
            f"{command}: [{running}] {_verb(running, 'runs', 'run')}; 'interrupt' stops "
            f"{_them(running)}, and 'proc SET {command}' leaves {_them(running)} out"
        )
    free = ranks & state.stopped - state.held
    if not free:
        why = "; ".join(state.absent(ranks - state.stopped))
        if held := ranks & state.held:
            why = f"[{held}] {_verb(held, 'is', 'are')} held; 'release {held}' lets them run"
        raise CommandError(f"{command}: no rank can be set running: {why}")
    return free, Missing(lost=ranks - state.live, held=ranks & state.held & state.stopped)


def end_of(answer: Answer, is_expected: Callable[[Stop], bool]) -> LockstepEnd:
    """Return the reason for which ranks do not go on together; ``complete`` if they do.

    A stop that is not expected is ``stopped``, if nothing worse has happened.
    """
    missing = answer.missing
    records = [each.record for each in answer.classes]
    stops = [record for record in records if isinstance(record, Stop)]
    if any(isinstance(record, Exit) for record in records):
        return "ended"
    if missing.lost or missing.late:
        return "lost"
    if answer.errors:
        return "failed"
    if any(is_error(stop) for stop in stops):
        return "error"
    if any(stop.reason == "interrupted" for stop in stops):
        return "interrupted"
    if missing.running:
        return "waiting"
    return "complete" if all(map(is_expected, stops)) else "stopped"


def is_step(stop: Stop) -> bool:
    """Return whether a stop completes a step."""
    return stop.reason in STEPPED


def _verb(ranks: RankSet, one: str, several: str) -> str:
    return one if len(ranks) == 1 else several


def _them(ranks: RankSet) -> str:
    return "it" if len(ranks) == 1 else "them"
