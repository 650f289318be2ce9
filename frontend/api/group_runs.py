"""Ranks that are set running together again and again, until there is a reason to end."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api.run_control import without_released
from pgdb.frontend.system import deadline
from pgdb.merge.classes import Missing
from pgdb.overlay.messages import RunWord
from pgdb.ranks import RankSet
from pgdb.records import Exit, Stop, is_error

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

GroupEnd = Literal[
    "complete",
    "parted",
    "waiting",
    "ended",
    "error",
    "stopped",
    "interrupted",
    "timeout",
    "failed",
    "lost",
]
"""The reason for which a group does not run again: all runs are complete, the ranks' ways have
parted, some ranks still run, a rank has ended, a rank has stopped for an error, a rank has stopped
for another reason (a breakpoint; others may still run), the user has interrupted it, the time was
over between two runs, GDB has refused the run, a rank is lost."""


class Limits(msgspec.Struct, frozen=True):
    """The limits of all runs of a group together."""

    timeout_s: float | None
    settle_s: float | None
    """Time of a run after which the ranks that have stopped do not wait for the others."""
    is_given_up: Callable[[], bool]
    """Function that returns whether the user has interrupted the group."""


class GroupRun:
    """Ranks that run together, and stop together."""

    def __init__(self, session: Session, ranks: RankSet, command: str, limits: Limits) -> None:
        self._session = session
        self._command = command
        self._limits = limits
        self._begun_s = time.monotonic()
        self.ranks, self._left_out = free_ranks(session, ranks, command)
        self._answer = Answer(command, self.ranks, ())

    def reason_not_to_run(self) -> GroupEnd:
        """Return the reason for which no further run may begin; ``complete`` if one may."""
        left_s = self._left_s
        if self._limits.is_given_up():
            return "interrupted"
        is_late = deadline.is_over() or (left_s is not None and left_s <= 0)
        return "timeout" if is_late else "complete"

    async def run(
        self, word: RunWord, argument: str, is_expected: Callable[[Stop], bool]
    ) -> GroupEnd:
        """Set the ranks running and wait for their stops; return the reason to end, if any."""
        runs, limits = self._session.runs, self._limits
        left_s = self._left_s
        started = await runs.start(word, argument, self.ranks)
        if (late := started.missing.late) and deadline.is_over():
            # The time limit has cut the answer: these ranks run, or have stopped since.
            self._session.traffic.expect_late_start(started.request_id)
            missing = (started.missing - late) | Missing(running=late)
            started = runs.with_news(replace(started, missing=missing))
        self._answer = await runs.finish(started, timeout_s=left_s, settle_s=limits.settle_s)
        return end_of(self._answer, is_expected)

    @property
    def answer(self) -> Answer:
        """The answer to the last run, with the ranks that could not take part."""
        found = replace(
            self._answer,
            command=self._command,
            ranks=self.ranks | self._left_out.ranks,
            missing=self._answer.missing | self._left_out,
            elapsed_s=time.monotonic() - self._begun_s,
        )
        return without_released(found, self._session.state)

    @property
    def _left_s(self) -> float | None:
        timeout_s = self._limits.timeout_s
        return None if timeout_s is None else self._begun_s + timeout_s - time.monotonic()


def free_ranks(session: Session, ranks: RankSet, command: str) -> tuple[RankSet, Missing]:
    """Return those of *ranks* that can be set running together, and the others.

    :raises UsageError: if some run, or *ranks* is empty.
    :raises CommandError: if no rank is stopped, or all are held.
    """
    state = session.state
    if not ranks:
        raise UsageError(f"{command}: the set of ranks is empty")
    if running := ranks & (state.running | state.passing):
        them = by_number(running, "it", "them")
        raise UsageError(
            f"{command}: [{running}] {by_number(running, 'runs', 'run')}; 'interrupt' stops "
            f"{them}, and 'proc SET {command}' leaves {them} out"
        )
    free = ranks & state.stopped - state.held
    if not free:
        why = "; ".join(state.absent(ranks - state.stopped))
        if held := ranks & state.held:
            why = f"[{held}] {by_number(held, 'is', 'are')} held; 'release {held}' lets them run"
        raise CommandError(f"{command}: no rank can be set running: {why}")
    return free, Missing(lost=ranks - state.live, held=ranks & state.held & state.stopped)


def end_of(answer: Answer, is_expected: Callable[[Stop], bool]) -> GroupEnd:
    """Return the reason for which ranks do not go on together; ``complete`` if they do.

    A stop that is not expected is ``stopped``, if nothing worse has happened: others may still run.
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
    if not all(map(is_expected, stops)):
        return "stopped"
    return "waiting" if missing.running else "complete"
