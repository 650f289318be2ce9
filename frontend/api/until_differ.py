"""Run from hit to hit of a place until values differ across ranks, or from a recording."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.comparing import Comparison, compare
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.analysis.ways import listed, ways_of
from pgdb.frontend.api import verdicts
from pgdb.frontend.api.arrivals import Arrival, arrival_at
from pgdb.frontend.api.breakpoint_making import why_none
from pgdb.frontend.api.breakpoint_numbers import last_made
from pgdb.frontend.api.lockstep import LockstepEnd, end_of, free_ranks
from pgdb.frontend.store import recording_file
from pgdb.frontend.system import deadline
from pgdb.frontend.system.shielding import to_its_end
from pgdb.merge.classes import Missing
from pgdb.overlay.messages import Backtrace, Evaluate
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

MOST_HITS = 1_000_000_000
_DELETE_TIMEOUT_S = 30.0

DifferEnd = Literal["differ", "recording", LockstepEnd]
"""The reason for the end: the values differ, the recording has no further value, or as for a
lockstep; ``complete`` after all hits that were asked for."""


class Differ(msgspec.Struct, frozen=True):
    """The outcome of a run from hit to hit."""

    command: str
    expression: str
    location: str
    """The place of the hits."""
    ranks: RankSet
    """The ranks whose values were compared."""
    hit: int
    """Number of the last hit, from 1 on; 0 for the place at which the ranks stood at first."""
    end: DifferEnd
    answer: Answer
    """Answer to the last run: the stops and ends, and the ranks that are missing."""
    check: Check | None = None
    """The values at the last hit at which they were compared across ranks."""
    comparison: Comparison | None = None
    """The values at the last hit, compared with those of the recording."""

    @property
    def differs(self) -> bool:
        """Whether values differ at the last hit."""
        return self.end == "differ"


async def until_differ(
    session: Session,
    ranks: RankSet,
    expression: str,
    *,
    at: str = "",
    limit: int = MOST_HITS,
    recording: Path | str | None = None,
    command: str = "",
    timeout_s: float | None = None,
    settle_s: float | None = None,
    is_given_up: Callable[[], bool] = lambda: False,
) -> Differ:
    """Run *ranks* from hit to hit of *at* until the values of *expression* differ.

    :raises UsageError: if the expression or the place is none, ranks run, or they are at several
        places and none is given.
    :raises CommandError: if a rank does not have the place, no rank is stopped, or the recording
        cannot be read or has no value of *expression*.
    """
    if not expression.strip():
        raise UsageError("until-differ needs an expression")
    if not 1 <= limit <= MOST_HITS:
        raise UsageError(f"until-differ: {limit} is no number of hits; 1 to {MOST_HITS} are")
    line = command or f"until-differ {expression}{f' --at {at}' if at else ''}"
    group, left_out = free_ranks(session, ranks, line)
    values = _Values(session, group, expression, recording)
    runner = _Runner(session, group, left_out, line, values)
    return await runner.run(at, limit, timeout_s, settle_s, is_given_up)


class _Values:
    """Values of an expression, compared at each hit."""

    def __init__(
        self, session: Session, ranks: RankSet, expression: str, recording: Path | str | None
    ) -> None:
        self._session = session
        self._ranks = ranks
        self.expression = expression
        self._requirement = parse(f"{expression} same")
        self._saved: Iterator[Answer] | None = None
        if recording is not None:
            saved = _saved_values(Path(recording), expression)
            if not saved:
                raise CommandError(
                    f"{recording} has no value of {expression!r}; a recording of 'until-differ "
                    f"{expression}' or of 'print {expression}' at each hit has"
                )
            self._saved = iter(saved)
        self.check: Check | None = None
        self.comparison: Comparison | None = None

    @property
    def is_from_recording(self) -> bool:
        """Whether values are compared with those of a recording."""
        return self._saved is not None

    async def look(self) -> DifferEnd:
        """Compare the values now; ``complete`` if they are the same."""
        session = self._session
        if self._saved is None:
            found = await verdicts.check_condition(session, self._requirement, self._ranks)
            self.check = found
            if found.ok:
                return "complete"
            return "failed" if all(each.is_error for each in found.failing) else "differ"
        saved = next(self._saved, None)
        if saved is None:
            return "recording"
        part = self._ranks & saved.ranks
        sides = await verdicts.sides(session, self.expression, part, saved, "rank")
        self.comparison = compare(*sides, by="rank")
        if not self.comparison.has_compared:
            return "failed"
        return "complete" if self.comparison.same else "differ"


class _Runner:
    """Ranks that run from hit to hit."""

    def __init__(
        self,
        session: Session,
        ranks: RankSet,
        left_out: Missing,
        command: str,
        values: _Values,
    ) -> None:
        self._session = session
        self._ranks = ranks
        self._left_out = left_out
        self._command = command
        self._values = values
        self._answer = Answer(command, ranks, ())
        self._hit = 0

    async def run(
        self,
        at: str,
        limit: int,
        timeout_s: float | None,
        settle_s: float | None,
        is_given_up: Callable[[], bool],
    ) -> Differ:
        begun_s = time.monotonic()
        location = at or await self._here()
        end: DifferEnd = "complete"
        if not at:
            end = await self._values.look()
        if end == "complete":
            arrival = await self._insert(location)
            try:
                with self._session.hushed(self._ranks, arrival.is_at):
                    while end == "complete" and self._hit < limit:
                        end = await self._go(arrival, begun_s, timeout_s, settle_s, is_given_up)
            finally:
                await to_its_end(self._delete(arrival.number), raises_cancellation=True)
        values = self._values
        return Differ(
            command=self._command,
            expression=values.expression,
            location=location,
            ranks=self._ranks,
            hit=self._hit,
            end=end,
            answer=replace(
                self._answer,
                command=self._command,
                ranks=self._ranks | self._left_out.ranks,
                missing=self._answer.missing | self._left_out,
                elapsed_s=time.monotonic() - begun_s,
            ),
            check=values.check,
            comparison=values.comparison,
        )

    async def _go(
        self,
        arrival: Arrival,
        begun_s: float,
        timeout_s: float | None,
        settle_s: float | None,
        is_given_up: Callable[[], bool],
    ) -> DifferEnd:
        """Run to the next hit and compare the values there."""
        session = self._session
        left_s = None if timeout_s is None else begun_s + timeout_s - time.monotonic()
        if is_given_up() or deadline.is_over() or (left_s is not None and left_s <= 0):
            return "interrupted"
        with deadline.renewed():
            started = await session.runs.start("continue", "", self._ranks)
            self._answer = await session.runs.finish(started, timeout_s=left_s, settle_s=settle_s)
            end = end_of(self._answer, arrival.is_at)
            if end != "complete":
                return end
            self._hit += 1
            return await self._values.look()

    async def _here(self) -> str:
        """Return the place where all ranks are.

        :raises UsageError: if there is none.
        """
        answer = await self._session.ask("backtrace 1", Backtrace(limit=1), self._ranks)
        ways = ways_of(answer.classes)
        if len(ways) != 1 or not ways[0].line:
            raise UsageError(
                f"{self._command}: the ranks are not at one line: {listed(ways)}; '--at LOCATION' "
                "names the place to compare at"
            )
        return f"{ways[0].file}:{ways[0].line}"

    async def _insert(self, location: str) -> Arrival:
        """Set the breakpoint for the hits.

        :raises CommandError: if ranks do not have the place.
        """
        session = self._session
        answer = await session.insert_breakpoint(f"break {location}", self._ranks)
        number = last_made(answer.classes)
        if answer.errors or not number:
            if number:
                await to_its_end(self._delete(number), raises_cancellation=True)
            raise CommandError(f"{self._command}: {why_none(answer)}")
        return arrival_at(number, answer.classes, is_conditional=" if " in location)

    async def _delete(self, number: int) -> None:
        session = self._session
        if session.has_ended:
            return
        with deadline.unlimited(), deadline.within(_DELETE_TIMEOUT_S):
            try:
                await session.ranks(self._ranks).delete(number)
            except PgdbError as error:
                session.note(f"breakpoint {number} could not be deleted: {error}")


def _saved_values(path: Path, expression: str) -> list[Answer]:
    """Return the values of an expression in a recording, in their order."""
    return [
        each.answer
        for each in recording_file.read(path).exchanges
        if isinstance(each.operation, Evaluate)
        and each.operation.expression == expression
        and not each.operation.whole
        and not each.operation.format
    ]
