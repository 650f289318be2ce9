"""The order of the places at which ranks differ: the most prominent place comes first.

A NaN or an infinity on a few ranks comes first. The next is a value of one rank alone, then the
values of a minority beside a majority, then numbers that differ without a majority, then all other
texts. Equally prominent places keep the order of the fields.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from pgdb.frontend.analysis.outliers import is_outlier
from pgdb.frontend.analysis.values import number_of
from pgdb.merge.normalize import DIFFERENT
from pgdb.merge.summary import Summary
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import SLOT

T = TypeVar("T")
Texts = Sequence[tuple[RankSet, str]]

_QUOTED = pattern(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'')
# GDB writes a NaN with its bits, and a field or an enumerator can be named "inf".
_NOT_FINITE = pattern(
    rf"(?<![\w.$])[-+]?(?:nan\((?:0x[0-9a-f]+|{SLOT}|{DIFFERENT})\)|nan|inf)i?(?![\w.(\[]| = )"
)
_MAY_BE_NOT_FINITE = ("nan", "inf")


class Prominence(enum.IntEnum):
    """Kinds of differences, the most prominent first."""

    NOT_FINITE = 0
    """A few ranks have a NaN or an infinity."""
    ONE_RANK = 1
    """One rank differs from all others, which agree."""
    MINORITY = 2
    """A few ranks differ from a majority."""
    NUMBERS = 3
    """Numbers differ, and no value has a majority."""
    REST = 4
    """Other texts differ."""
    EQUAL = 5
    """Nothing differs."""


Rating = tuple[Prominence, int]
"""A kind, and the number of ranks that differ if the kind is about a few ranks."""


def has_not_finite(text: str) -> bool:
    """Return whether a value holds a NaN or an infinity.

    >>> has_not_finite("{1, nan(0x8000000000000)}"), has_not_finite('{inf = 1, name = "nan"}')
    (True, False)
    """
    if not any(each in text for each in _MAY_BE_NOT_FINITE):
        return False
    if "'" in text or '"' in text:
        text = _QUOTED.sub('""', text)
    return _NOT_FINITE.search(text) is not None


def rate_texts(texts: Texts) -> Rating:
    """Return the prominence of different texts of the ranks.

    >>> rate_texts([(RankSet([0, 1, 2]), "1.5"), (RankSet([3]), "inf")])
    (<Prominence.NOT_FINITE: 0>, 1)
    """
    if len(texts) < 2:
        return Prominence.EQUAL, 0
    sizes = [len(ranks) for ranks, _ in texts]
    total = sum(sizes)
    odd = sum(size for size, (_, text) in zip(sizes, texts, strict=True) if has_not_finite(text))
    if 0 < odd <= total / 2:
        return Prominence.NOT_FINITE, odd
    if len(sizes) == 2 and min(sizes) == 1 < max(sizes):
        return Prominence.ONE_RANK, 1
    few = 0
    if 2 * max(sizes) > total:
        few = sum(size for size in sizes if is_outlier(size, sizes))
    if few:
        return Prominence.MINORITY, few
    if all(number_of(text) is not None for _, text in texts):
        return Prominence.NUMBERS, 0
    return Prominence.REST, 0


def rate_summary(summary: Summary, count: int) -> Rating:
    """Return the prominence of the summarized texts of *count* ranks."""
    odd = len(summary.nan | summary.above | summary.below)
    if 0 < odd <= count / 2:
        return Prominence.NOT_FINITE, odd
    if summary.distinct == 2 and not (odd or summary.others):
        few = min(len(summary.at_low), len(summary.at_high))
        if few == 1 < max(len(summary.at_low), len(summary.at_high)):
            return Prominence.ONE_RANK, 1
        if is_outlier(few, [few, count - few]):
            return Prominence.MINORITY, few
    if summary.count and not summary.others:
        is_equal = not odd and summary.low == summary.high
        return (Prominence.EQUAL if is_equal else Prominence.NUMBERS), 0
    return Prominence.REST, 0


def most_prominent_first(items: Iterable[T], rate: Callable[[T], Rating]) -> list[T]:
    """Return *items* in the order of their ratings; equal ratings keep their order.

    Ratings of a few ranks are ordered by the number of ranks only for values that are not finite:
    of these the fewest ranks come first.
    """

    def key(item: T) -> tuple[int, int]:
        kind, count = rate(item)
        return kind, count if kind is Prominence.NOT_FINITE else 0

    return sorted(items, key=key)


class Change(Protocol):
    """A difference of two sides, such as a part of a comparison."""

    @property
    def before(self) -> str:
        """Text on the first side."""

    @property
    def after(self) -> str:
        """Text on the second side."""

    @property
    def relative(self) -> float | None:
        """Size of the difference; None for other texts than two finite numbers."""


C = TypeVar("C", bound=Change)


def most_prominent_changes_first(changes: Iterable[C]) -> list[C]:
    """Return differences of two sides in order: a NaN or an infinity on one side alone, other
    texts, then numbers, the largest relative difference first."""

    def key(change: C) -> tuple[bool, bool, float]:
        is_finite = has_not_finite(change.before) == has_not_finite(change.after)
        return is_finite, change.relative is not None, -(change.relative or 0.0)

    return sorted(changes, key=key)
