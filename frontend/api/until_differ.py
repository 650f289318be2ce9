"""Run from hit to hit of a place until values differ across ranks, or from a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

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
from pgdb.frontend.api.group_runs import GroupEnd, GroupRun, Limits
from pgdb.frontend.store import recording_file
from pgdb.frontend.system import deadline
from pgdb.frontend.system.shielding import to_its_end
from pgdb.overlay.messages import Backtrace, Evaluate
from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from pgdb.frontend.api.session import Session

MOST_HITS = 1_000_000_000
_DELETE_TIMEOUT_S = 30.0

DifferEnd = Literal["differ", "recording", GroupEnd]
"""The reason for the end: the values differ, the recording has no further value, or as for any
group; ``complete`` after all hits that were asked for."""


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
    hits = _Hits(session, ranks, line, Limits(timeout_s, settle_s, is_given_up))
    return await hits.follow(_Values(session, hits.ranks, expression, recording), at, limit)


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


class _Hits(GroupRun):
    """Ranks that run from hit to hit."""

    async def follow(self, values: _Values, at: str, limit: int) -> Differ:
        """Run to *limit* hits of *at*, or until the values differ."""
        location = at or await self._here()
        hit = 0
        end: DifferEnd = "complete"
        if not at:
            end = await values.look()
        if end == "complete":
            arrival = await self._insert(location)
            try:
                with self._session.hushed(self.ranks, arrival.is_at):
                    while end == "complete" and hit < limit:
                        if self.is_over:
                            end = "interrupted"
                            break
                        with deadline.renewed():
                            end = await self.run("continue", "", arrival.is_at)
                            if end == "complete":
                                hit += 1
                                end = await values.look()
            finally:
                await to_its_end(self._delete(arrival.number))
        return Differ(
            command=self._command,
            expression=values.expression,
            location=location,
            ranks=self.ranks,
            hit=hit,
            end=end,
            answer=self.answer,
            check=values.check,
            comparison=values.comparison,
        )

    async def _here(self) -> str:
        """Return the place where all ranks are.

        :raises UsageError: if there is none.
        """
        answer = await self._session.ask("backtrace 1", Backtrace(limit=1), self.ranks)
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
        before = session.last_breakpoint
        answer = await session.insert_breakpoint(f"break {location}", self.ranks)
        number = last_made(answer.classes)
        if answer.errors or not number:
            # Ranks that were lost meanwhile would get it when they are back.
            if session.last_breakpoint > before:
                await to_its_end(self._delete(session.last_breakpoint))
            raise CommandError(f"{self._command}: {why_none(answer)}")
        return arrival_at(number, answer.classes, is_conditional=" if " in location)

    async def _delete(self, number: int) -> None:
        session = self._session
        if session.has_ended:
            return
        with deadline.unlimited(), deadline.within(_DELETE_TIMEOUT_S):
            try:
                await session.ranks(self.ranks).delete(number)
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
