"""Differences between two answers: rank by rank, position by position, or value by value.

No rank is asked. Addresses in answers are normalized, so that they do not count as differences. A
NaN equals any other NaN.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec.structs import replace

from pgdb.errors import UsageError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.class_pairs import pairs
from pgdb.frontend.analysis.closeness import Closeness
from pgdb.frontend.analysis.part_differences import Part, have_parts, parts_of
from pgdb.frontend.analysis.rich_display import RichText
from pgdb.frontend.analysis.values import Exact, exact_of
from pgdb.frontend.analysis.whole_values import (
    NOT_KEPT,
    how_far,
    is_hidden,
    is_known,
    is_partial,
    key_of,
    not_seen,
    unread,
    way_out,
)
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.normalize import join_slots
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Value, Various

By = Literal["rank", "position", "value"]
"""Pairs of values that are compared: of the same rank, or of ranks at the same position in their
sets. By value, each value is looked for among all values of the other side."""


class Difference(msgspec.Struct, frozen=True):
    """Ranks with the same difference."""

    ranks: RankSet
    others: RankSet
    """Ranks on the other side; by rank, the same ranks."""
    before: Record
    after: Record
    parts: tuple[Part, ...]
    """Places at which the values differ; empty if the records are no values."""

    @property
    def absolute(self) -> float | None:
        """The largest absolute difference of two numbers, or None."""
        return max(
            (each.absolute for each in self.parts if each.absolute is not None), default=None
        )

    @property
    def relative(self) -> float | None:
        """The largest relative difference of two numbers, or None."""
        return max(
            (each.relative for each in self.parts if each.relative is not None), default=None
        )


class LeftOut(msgspec.Struct, frozen=True):
    """Ranks that could not be compared."""

    ranks: RankSet
    why: str
    side: Literal["before", "after", "both"]
    """The answer that caused the omission, and to which these ranks belong."""
    is_error: bool = False
    """Whether the ranks answered with an error."""


class Comparison(msgspec.Struct, RichText, frozen=True):
    """The differences of two answers; every asked rank is in one of its sets."""

    by: By
    equal: RankSet
    """Ranks with equal records on both sides; by value, ranks whose record occurs on the other
    side."""
    equal_others: RankSet
    """The equal ranks of the other side."""
    differences: tuple[Difference, ...] = ()
    """By rank and by position: differences, the largest numeric difference first."""
    only_before: tuple[EquivalenceClass[Record], ...] = ()
    """By value: classes that occur on the first side only, the smallest first."""
    only_after: tuple[EquivalenceClass[Record], ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    on_both: tuple[EquivalenceClass[Record], ...] = ()
    """By value: classes with identical records on both sides, with the ranks of both sides."""

    @property
    def differing(self) -> RankSet:
        """Ranks of the first side that differ."""
        return RankSet.union(
            [each.ranks for each in self.differences] + [each.ranks for each in self.only_before]
        )

    @property
    def has_compared(self) -> bool:
        """Whether any ranks could be compared."""
        sides = (self.equal, self.equal_others, self.differences)
        return any((*sides, self.only_before, self.only_after))

    @property
    def has_errors(self) -> bool:
        """Whether ranks could not be compared because they cannot evaluate the expression."""
        return any(each.is_error for each in self.left_out)

    @property
    def same(self) -> bool:
        """Whether all ranks were compared and none differs."""
        return not (self.differences or self.only_before or self.only_after or self.left_out)


def compare(
    before: Answer,
    after: Answer,
    *,
    by: By = "rank",
    tolerance: float = 0.0,
    absolute_tolerance: float = 0.0,
) -> Comparison:
    """Compare two answers, of one session or of two.

    Two numbers are equal if they differ by at most *tolerance* times the larger magnitude, or by at
    most *absolute_tolerance*.

    :raises UsageError: if a tolerance is negative, or if ranks are compared by position and the two
        sides have different numbers of ranks.
    """
    if not (tolerance >= 0 and absolute_tolerance >= 0):
        raise UsageError("a tolerance must be 0 or more")
    close = Closeness(tolerance, absolute_tolerance)
    if by == "value":
        return _by_value(before, after, close)
    if by == "rank":
        return _by_rank(before, after, close)
    if len(before.ranks) != len(after.ranks):
        raise UsageError(
            f"ranks cannot be paired: [{before.ranks}] are {len(before.ranks)} and "
            f"[{after.ranks}] are {len(after.ranks)}"
        )
    partner = dict(zip(after.ranks, before.ranks, strict=True))
    back = {mine: theirs for theirs, mine in partner.items()}
    found = _by_rank(before, _moved(after, partner), close)
    return replace(
        found,
        by="position",
        equal_others=_map(found.equal, back),
        differences=tuple(
            replace(each, others=_map(each.ranks, back)) for each in found.differences
        ),
        left_out=tuple(
            replace(each, ranks=_map(each.ranks, back)) if each.side == "after" else each
            for each in found.left_out
        ),
    )


def to_look_at(before: Answer, after: Answer, by: By) -> frozenset[str]:
    """Return the hashes of the values that a comparison must have in full.

    Values that are equal on both sides need no further look.
    """
    keys: list[object] = []
    if by == "rank":
        for mine, theirs, _ in pairs(before.classes, after.classes):
            if key_of(mine.record) != key_of(theirs.record):
                keys += (key_of(mine.record), key_of(theirs.record))
    else:
        sides = [{key_of(each.record) for each in side.classes} for side in (before, after)]
        if by == "position" or sides[0] != sides[1]:
            keys += (*sides[0], *sides[1])
    return frozenset(key for key in keys if isinstance(key, str))


# -- inside ------------------------------------------------------------------------------------


def _by_rank(before: Answer, after: Answer, close: Closeness) -> Comparison:
    equal: list[RankSet] = []
    differences: list[Difference] = []
    left_out: list[LeftOut] = []
    for mine, theirs, ranks in pairs(before.classes, after.classes):
        if why := _why_not(mine.record, theirs.record):
            is_error = mine.is_error or is_hidden(mine.record) or is_hidden(theirs.record)
            left_out.append(LeftOut(ranks, why, "both", is_error=is_error))
            continue
        is_equal = key_of(mine.record) == key_of(theirs.record)
        if not is_equal and not (is_known(mine.record) and is_known(theirs.record)):
            # The hashes of the whole values differ, and one of them cannot be read any more.
            why = "the values differ beyond the elements that GDB prints, which are not kept"
            parts = parts_of(mine, theirs, close)
            if not parts:
                left_out.append(LeftOut(ranks, why, "both", is_error=True))
                continue
        elif not is_equal:
            parts = parts_of(mine, theirs, close)
            if not parts and _extent(mine.record) != _extent(theirs.record):
                why = "equal as far as PGDB looked at both; it looked further at one of them"
                left_out.append(LeftOut(ranks, why, "both", is_error=True))
                continue
        if not is_equal and (parts or not have_parts(mine.record, theirs.record)):
            differences.append(Difference(ranks, ranks, mine.filled, theirs.filled, parts))
        elif why := _why_partly(before, mine.record, theirs.record):
            left_out.append(LeftOut(ranks, why, "both", is_error=True))
        else:
            equal.append(ranks)
    left_out += _unanswered(before, after)
    differences.sort(key=_by_size)
    same = RankSet.union(equal)
    return Comparison("rank", same, same, tuple(differences), left_out=tuple(left_out))


def _extent(record: Record) -> int:
    """Return the number of elements of a partial value that were looked at, 0 for all."""
    return record.looked_at if isinstance(record, Value) else 0


def _why_not(mine: Record, theirs: Record) -> str:
    if isinstance(mine, Various) or isinstance(theirs, Various):
        return NOT_KEPT
    if isinstance(mine, Failure) and isinstance(theirs, Failure):
        return f"error: {mine.message}"
    hidden = next((each for each in (mine, theirs) if is_hidden(each)), None)
    return f"the value is {not_seen(hidden)}" if hidden is not None else ""


def _why_partly(asked: Answer, *records: Record) -> str:
    """Return words if equal values have elements that were not looked at, otherwise nothing."""
    if mark := next(filter(None, map(unread, records)), ""):
        return f"equal but for {mark}, of which PGDB cannot read all"
    partial = next((each for each in records if is_partial(each)), None)
    if partial is None:
        mark = next(filter(None, map(not_seen, records)), "")
        return f"equal but for parts that are {mark}" if mark else ""
    word, _, expression = asked.command.partition(" ")
    advice = way_out(expression)
    if word.partition("/")[0] != "print":
        advice = "save and compare single variables, which are looked at in full"
    return f"equal in {how_far(partial)}, the others were not looked at; {advice}"


def _unanswered(before: Answer, after: Answer) -> Iterator[LeftOut]:
    """Yield the ranks that answered on at most one side."""
    mine = RankSet.union(each.ranks for each in before.classes)
    theirs = RankSet.union(each.ranks for each in after.classes)
    for why, ranks in _reasons(before, (before.ranks | theirs) - mine):
        yield LeftOut(ranks, why, "before")
    for why, ranks in _reasons(after, mine - theirs):
        yield LeftOut(ranks, why, "after")


def _reasons(answer: Answer, ranks: RankSet) -> Iterator[tuple[str, RankSet]]:
    missing = answer.missing
    for why, members in (
        ("running", missing.running),
        ("held", missing.held),
        ("no answer in time", missing.late),
        ("ended, detached or lost", missing.lost),
        ("not asked", ranks - missing.ranks),
    ):
        if found := members & ranks:
            yield why, found


def _by_value(before: Answer, after: Answer, close: Closeness) -> Comparison:
    left_out = []
    sides: list[list[EquivalenceClass[Record]]] = []
    for answer, side in ((before, "before"), (after, "after")):
        usable = []
        for each in answer.classes:
            if why := _why_not(each.record, each.record):
                is_error = each.is_error or is_hidden(each.record)
                left = LeftOut(each.ranks, why, side, is_error)  # type: ignore[arg-type]
                left_out.append(left)
            else:
                usable.append(each)
        sides.append(usable)
        left_out += [
            LeftOut(ranks, why, side)  # type: ignore[arg-type]
            for why, ranks in _reasons(answer, answer.missing.ranks)
        ]
    equal_before, only_before = _split(sides[0], _Values(sides[1], close))
    equal_after, only_after = _split(sides[1], _Values(sides[0], close))
    for partial in (*sides[0], *sides[1]):
        is_equal = partial.ranks <= (equal_before | equal_after)
        if is_equal and (why := _why_partly(before, partial.record)):
            side = "before" if partial.ranks <= equal_before else "after"
            left_out.append(LeftOut(partial.ranks, why, side, is_error=True))  # type: ignore[arg-type]
            equal_before, equal_after = equal_before - partial.ranks, equal_after - partial.ranks
    return Comparison(
        "value",
        equal_before,
        equal_after,
        only_before=only_before,
        only_after=only_after,
        left_out=tuple(left_out),
        on_both=_on_both(*sides),
    )


def _on_both(
    one: list[EquivalenceClass[Record]], other: list[EquivalenceClass[Record]]
) -> tuple[EquivalenceClass[Record], ...]:
    theirs = {key_of(each.record): each for each in other}
    return tuple(
        EquivalenceClass(
            ranks=each.ranks | there.ranks,
            record=each.record,
            slots=join_slots(each.slots, there.slots)
            if each.record == there.record
            else each.slots,
        )
        for each in one
        if (there := theirs.get(key_of(each.record))) is not None
    )


def _split(
    side: list[EquivalenceClass[Record]], other: _Values
) -> tuple[RankSet, tuple[EquivalenceClass[Record], ...]]:
    lone = [each for each in side if each not in other]
    equal = RankSet.union(each.ranks for each in side if each in other)
    lone.sort(key=lambda each: (len(each.ranks), each.ranks.first))
    return equal, tuple(lone)


class _Values:
    """The values that occur on one side."""

    def __init__(self, classes: list[EquivalenceClass[Record]], close: Closeness) -> None:
        self._close = close
        self._classes = classes
        self._records = {key_of(each.record) for each in classes}
        found = (_number(each.record) for each in classes)
        self._numbers = sorted(number for number in found if number is not None)

    def __contains__(self, each: EquivalenceClass[Record]) -> bool:
        if key_of(each.record) in self._records:
            return True
        if (number := _number(each.record)) is not None:
            at = bisect_left(self._numbers, number)
            # With absolute and relative tolerance, the nearest value is a neighbour in sorted
            # order.
            near = self._numbers[max(0, at - 1) : at + 1]
            return any(self._close.numbers(number, other) for other in near)
        if self._close.is_exact:
            return False
        return any(
            have_parts(each.record, other.record)
            and is_known(each.record)
            and is_known(other.record)
            and not parts_of(each, other, self._close)
            for other in self._classes
        )


def _number(record: Record) -> Exact | None:
    number = exact_of(record.text) if isinstance(record, Value) else None
    # A NaN has no place in sorted order. As a record it equals a NaN that GDB prints alike.
    return None if number is None or number != number else number


def _by_size(each: Difference) -> tuple[float, float, int]:
    # Pairs that are not two finite numbers (a NaN, an error) count as the largest difference.
    odd = any(part.absolute is None for part in each.parts) or not each.parts
    return (-math.inf if odd else 0.0, -(each.relative or 0.0), each.ranks.first)


def _moved(answer: Answer, partner: dict[int, int]) -> Answer:
    classes = tuple(replace(each, ranks=_map(each.ranks, partner)) for each in answer.classes)
    missing = Missing(
        late=_map(answer.missing.late, partner),
        lost=_map(answer.missing.lost, partner),
        running=_map(answer.missing.running, partner),
        held=_map(answer.missing.held, partner),
    )
    return replace(answer, ranks=_map(answer.ranks, partner), classes=classes, missing=missing)


def _map(ranks: RankSet, to: dict[int, int]) -> RankSet:
    return RankSet(to[rank] for rank in ranks)
