"""Run from hit to hit of a place until values differ across ranks, or from a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from pgdb.errors import CommandError, PgdbError, UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.assertions import Check
from pgdb.frontend.analysis.comparing import Comparison
from pgdb.frontend.analysis.conditions import same
from pgdb.frontend.analysis.full_answers import part_of
from pgdb.frontend.analysis.ways import listed, ways_of
from pgdb.frontend.analysis.wording import by_number
from pgdb.frontend.api import verdicts
from pgdb.frontend.api.breakpoint_making import why_none
from pgdb.frontend.api.breakpoint_numbers import last_made
from pgdb.frontend.api.group_runs import GroupEnd, GroupRun, Limits
from pgdb.frontend.store import recording_file
from pgdb.frontend.store.recorder import Compared, Exchange
from pgdb.frontend.system import deadline
from pgdb.frontend.system.shielding import to_its_end
from pgdb.overlay.breakpoint_operations import CheckExpression
from pgdb.overlay.messages import Backtrace, Evaluate
from pgdb.ranks import RankSet
from pgdb.records import Failure, Stop, stopped_at

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
    came: RankSet = RankSet()
    """The ranks that have stopped at the place in the last run."""
    check: Check | None = None
    """The values at the last hit at which they were compared across ranks."""
    comparison: Comparison | None = None
    """The values at the last hit, compared with those of the recording."""
    unrecorded: int = 0
    """Number of the first places that were not compared, since the recording has no room for
    their values."""
    same_hits: int = 0
    """Number of the hits at which the values were compared and did not differ."""

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
    :raises CommandError: if a rank does not have the place, no rank knows *expression* there, no
        rank is stopped, or the recording cannot be read or has no value of *expression*.
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
        self._requirement = same(expression)
        self._recording = recording
        self._saved: dict[int, _Saved] | None = None
        self._looks = 0
        self._location = ""
        self._is_place_noted = False
        self.unrecorded = 0
        self.same_looks = 0
        """Number of the looks at which the values were compared and did not differ."""
        if recording is not None:
            self._saved = _saved_values(Path(recording), expression)
            self._check_saved(recording)
        self.check: Check | None = None
        self.comparison: Comparison | None = None

    def _check_saved(self, recording: Path | str) -> None:
        """Note what the recording lacks.

        :raises CommandError: if it has no value of the ranks.
        """
        assert self._saved is not None
        recorded = RankSet.union(each.answer.ranks for each in self._saved.values())
        if not self._saved:
            raise CommandError(
                f"{recording} has no value of {self.expression!r}; a recording of 'until-differ "
                f"{self.expression}' or of 'print {self.expression}' at each hit has"
            )
        if lacking := self._ranks - recorded:
            text = f"{recording} has values of [{recorded}], and none of [{lacking}]"
            if lacking == self._ranks:
                raise CommandError(text)
            self._session.note(f"{text}, which {by_number(lacking, 'is', 'are')} not compared")
        self._ranks &= recorded
        self.unrecorded = min(self._saved) - 1
        if self.unrecorded:
            times = "time" if self.unrecorded == 1 else f"{self.unrecorded} times"
            self._session.note(
                f"{recording} has no values of the first {times}, for which it had no room; "
                "they are not compared"
            )

    @property
    def ranks(self) -> RankSet:
        """The ranks whose values are compared."""
        return self._ranks

    def go_on(self, location: str, *, is_here: bool) -> None:
        """Compare from the value on behind those that an earlier run to *location* has compared.

        :param is_here: whether the first values are those of now, before any hit.
        """
        if self._recording is None:
            return
        self._location = location
        recorder = self._session.recorder
        if (before := recorder.compared.get(self._key)) is not None:
            is_again = is_here and before.last_run == recorder.last_run
            self._looks = before.number - is_again
        if self._looks:
            self._session.note(
                f"the next {self.expression} is compared with value {self._looks + 1} of "
                f"{self._recording}, since earlier ones were compared at {location} before; after "
                "'restart' the first value is"
            )

    @property
    def _key(self) -> tuple[str, str, str]:
        return (str(self._recording), self.expression, self._location)

    def _check_place(self, saved: _Saved) -> None:
        """Note once that a value of the recording is from another line."""
        here = self._session.state.place(self._ranks)
        if self._is_place_noted or not here or not saved.place or here == saved.place:
            return
        self._is_place_noted = True
        self._session.note(
            f"{self._recording} has value {self._looks} of {self.expression} from {saved.place}, "
            f"and the ranks are at {here}: a difference may be that of the places"
        )

    async def look(self) -> DifferEnd:
        """Compare the values now; ``complete`` if they are the same, or cannot be compared yet."""
        session = self._session
        if self._saved is None:
            found = await verdicts.check_condition(session, self._requirement, self._ranks)
            if not found.failing and found.missing.late and deadline.is_over():
                return "timeout"
            self.check = found
            if found.ok:
                self.same_looks += 1
                return "complete"
            return "failed" if all(each.is_error for each in found.failing) else "differ"
        self._looks += 1
        session.recorder.compared[self._key] = Compared(self._looks, session.recorder.last_run)
        saved = self._saved.get(self._looks)
        if saved is None:
            if self._looks > max(self._saved):
                return "recording"
            # A recording of this run is to have the value.
            await verdicts.evaluate(session, self.expression, self._ranks)
            return "complete"
        self._check_place(saved)
        part = self._ranks & saved.answer.ranks
        # The recording may be of more ranks than are asked.
        earlier = part_of(saved.answer, part)
        sides = await verdicts.sides(session, self.expression, part, earlier, "rank")
        comparison = await verdicts.compared(sides, "rank")
        if not comparison.differences and sides[1].missing.late and deadline.is_over():
            return "timeout"
        self.comparison = comparison
        if not comparison.has_compared:
            return "failed"
        self.same_looks += comparison.same
        return "complete" if comparison.same else "differ"


class _Hits(GroupRun):
    """Ranks that run from hit to hit."""

    async def follow(self, values: _Values, at: str, limit: int) -> Differ:
        """Run to *limit* hits of *at*, or until the values differ."""
        location = at or await self._here()
        if at:
            await self._check(values, location)
        values.go_on(location, is_here=not at)
        hit = 0
        came = RankSet()
        end: DifferEnd = "complete"
        if not at:
            end = await values.look()
        same_before = values.same_looks
        if end == "complete":
            number = await self._insert(location)

            def is_at(stop: Stop) -> bool:
                return number in stopped_at(stop)

            try:
                with self._session.hushed(self.ranks, is_at):
                    while end == "complete" and hit < limit:
                        if (end := self.reason_not_to_run()) != "complete":
                            break
                        with deadline.renewed():
                            end = await self.run("continue", "", is_at)
                            came = self._at(number)
                            if end == "complete":
                                end = await values.look()
                                # The time may be over before all values have come.
                                hit += end != "timeout"
            finally:
                await to_its_end(self._delete(number))
        return Differ(
            command=self._command,
            expression=values.expression,
            location=location,
            ranks=values.ranks,
            hit=hit,
            end=end,
            answer=self.answer,
            came=came,
            check=values.check,
            comparison=values.comparison,
            unrecorded=values.unrecorded,
            same_hits=values.same_looks - same_before,
        )

    async def _check(self, values: _Values, location: str) -> None:
        """Check that the expression can have a value at a place, before any rank runs.

        :raises CommandError: if GDB knows that it has none on any rank.
        """
        operation = CheckExpression(place=location, expression=values.expression)
        answer = await self._session.ask(self._command, operation, values.ranks, is_own=True)
        records = [each.filled for each in answer.classes]
        failures = [each for each in records if isinstance(each, Failure)]
        if not failures or len(failures) < len(records):
            return
        why = failures[0].message
        if why.endswith("in current context."):
            why += (
                f"\nIf a library has it that is loaded later, 'tbreak {location}', 'continue' and "
                f"'until-differ {values.expression}' compare it"
            )
        raise CommandError(f"{self._command}: {why}")

    def _at(self, number: int) -> RankSet:
        """Return the ranks that have stopped at the place."""
        return RankSet.union(
            each.ranks for each in self.answer.classes if number in stopped_at(each.record)
        )

    async def _here(self) -> str:
        """Return the place where all ranks are.

        :raises UsageError: if there is none.
        """
        answer = await self._session.ask(self._command, Backtrace(limit=1), self.ranks, is_own=True)
        ways = ways_of(answer.classes)
        if len(ways) != 1 or not ways[0].line:
            raise UsageError(
                f"{self._command}: the ranks are not at one line: {listed(ways)}; '--at LOCATION' "
                "names the place to compare at"
            )
        return f"{ways[0].file}:{ways[0].line}"

    async def _insert(self, location: str) -> int:
        """Set the breakpoint for the hits, and return its number.

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
        return number

    async def _delete(self, number: int) -> None:
        session = self._session
        if session.has_ended:
            return
        with deadline.unlimited(), deadline.within(_DELETE_TIMEOUT_S):
            try:
                await session.ranks(self.ranks).delete(number)
            except PgdbError as error:
                session.note(f"breakpoint {number} could not be deleted: {error}")


class _Saved(NamedTuple):
    """The values of one occasion in a recording."""

    answer: Answer
    place: str
    """The line at which the ranks had stopped, empty if it is not known."""


def _saved_values(path: Path, expression: str) -> dict[int, _Saved]:
    """Return the values of an expression in a recording, by the number of their occasion.

    The last value of a rank counts that was asked before the rank has run again.
    """
    found: dict[int, _Saved] = {}
    for number, each in enumerate(_asked(path, expression), start=1):
        before = found.get(each.occasion or number)
        answer = each.answer if before is None else each.answer.joined(before.answer)
        found[each.occasion or number] = _Saved(answer, each.place)
    return found


def _asked(path: Path, expression: str) -> Iterator[Exchange]:
    for each in recording_file.read(path).exchanges:
        operation = each.operation
        if isinstance(operation, Evaluate) and operation.expression == expression:
            if not operation.whole and not operation.format:
                yield each
