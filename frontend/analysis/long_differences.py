"""Places at which long values of several ranks differ, beyond the part that GDB prints."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from pgdb.frontend.analysis import block_values
from pgdb.frontend.analysis.block_outliers import by_prominence
from pgdb.frontend.analysis.closeness import EXACT
from pgdb.frontend.analysis.diff import Place, compare
from pgdb.frontend.analysis.paths import with_bounds
from pgdb.frontend.analysis.value_nodes import MarkedText, node_of
from pgdb.frontend.analysis.values import unparse
from pgdb.frontend.analysis.whole_values import is_known, key_of
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.normalize import join_slots, normalize_values
from pgdb.merge.summary import Summary
from pgdb.merge.totals import merge, summarize_array
from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Block, Record, Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SCATTERED = 4
_MOST_RUNS = 1000
_MOST_PROMINENT = 200
"""Most prominent places that are listed beside the summary of all elements."""
_MOST_WHOLE = 200
"""Length of a value up to which it is shown in full where GDB has cut it."""
_MOST_CLASSES = 256
_LONG_BEGIN = 160
_KEPT = 20
"""Number of characters of the common begin that are kept."""
_ADDRESS = pattern(r'(?:\([^()"]*\) )?0x[0-9a-f]+ (?:<[^<>"]*> )?(?=")')


class LongDifferences(msgspec.Struct, frozen=True):
    """Differences of long values."""

    places: tuple[Place, ...] = ()
    """Places that differ; where the values differ all over, the prominent ones only."""
    summary: Summary | None = None
    """Summary of all numbers, if arrays of numbers differ all over."""
    is_unknown: bool = False
    """Whether the values are known to differ, but not where."""
    cut: tuple[str, ...] = ()
    """Paths to the arrays in a structure that differ in more places than *places* has."""

    @property
    def are_equal(self) -> bool:
        """Whether the values are equal after all: unordered containers in other orders."""
        return not (self.places or self.summary or self.is_unknown)


def long_differences(classes: Sequence[EquivalenceClass[Record]]) -> LongDifferences | None:
    """Return the differences of values of which GDB prints a part; None for other values."""
    if not any(isinstance(each.record, Value) and each.record.digest for each in classes):
        return None
    keys = {key_of(each.record) for each in classes}
    if len(keys) < 2:
        # The parts that GDB prints of unordered containers differ all the same.
        return LongDifferences() if any(isinstance(key, tuple) for key in keys) else None
    if len(classes) > _MOST_CLASSES or not all(is_known(each.record) for each in classes):
        return LongDifferences(is_unknown=True)
    blocks = [
        (each.ranks, whole)
        for each in classes
        if isinstance(whole := cast(Value, each.record).whole, Block)
    ]
    if len(blocks) < len(classes) or not _are_alike([block for _, block in blocks]):
        places = compare([(each.ranks, node_of(each)) for each in classes]).places
        wholes = [cast(Value, each.record).whole for each in classes]
        marked = [whole for whole in wholes if isinstance(whole, MarkedText)]
        for array, lower in (marked[0].bounds if marked else {}).items():
            places = tuple(
                replace(each, path=with_bounds(each.path, array, lower)) for each in places
            )
        cut = dict.fromkeys(path for whole in marked for path in whole.cut)
        return LongDifferences(tuple(map(_from_difference, places)), cut=(*cut,))
    return _of_blocks(blocks)


def one_of_each_value(
    classes: Iterable[EquivalenceClass[Record]],
) -> list[EquivalenceClass[Record]]:
    """Return classes with those joined that have one hash: their addresses alone differ."""
    members: dict[str, list[EquivalenceClass[Record]]] = {}
    for number, each in enumerate(classes):
        digest = each.record.digest if isinstance(each.record, Value) else ""
        members.setdefault(digest or str(number), []).append(each)
    return [
        same[0]
        if len(same) == 1
        else replace(
            same[0],
            ranks=RankSet.union(each.ranks for each in same),
            slots=functools.reduce(join_slots, (each.slots for each in same)),
        )
        for same in members.values()
    ]


def from_difference(texts: Sequence[str]) -> list[str]:
    """Return long texts without the beginning that all share, but for addresses of strings.

    >>> from_difference(["'" + 200 * "x" + "a'", "'" + 200 * "x" + "b'"])
    ["…xxxxxxxxxxxxxxxxxxxxa'", "…xxxxxxxxxxxxxxxxxxxxb'"]
    """
    heads = [_ADDRESS.match(text) for text in texts]
    if heads and all(heads):
        tails = [text[head.end() :] for text, head in zip(texts, heads, strict=True) if head]
        shown = from_difference(tails)
        return [*texts] if shown == tails else shown
    least, greatest = min(texts, default=""), max(texts, default="")
    pairs = enumerate(zip(least, greatest, strict=False))
    common = next((at for at, (one, other) in pairs if one != other), len(least))
    if len(texts) < 2 or common < _LONG_BEGIN:
        return [*texts]
    return [f"…{text[common - _KEPT :]}" for text in texts]


def distinct_wholes(classes: Sequence[EquivalenceClass[Record]]) -> dict[RankSet, str]:
    """Return the values in full that differ beyond the part that GDB prints, from there on; and
    those in full that GDB has cut, if they are short."""
    long = [
        each
        for each in classes
        if isinstance(each.record, Value) and isinstance(each.record.whole, str)
    ]
    shown = {each.filled.text for each in long if isinstance(each.filled, Value)}
    are_distinct = len(shown) == len(long)
    if are_distinct and not any(each.endswith("...") for each in shown):
        return {}
    wholes = from_difference([unparse(node_of(each)) for each in long])
    if are_distinct and max(map(len, wholes)) > _MOST_WHOLE:
        return {}
    return {each.ranks: text for each, text in zip(long, wholes, strict=True)}


def _from_difference(place: Place) -> Place:
    texts = from_difference([text for _, text in place.texts])
    ranks = [ranks for ranks, _ in place.texts]
    return replace(place, texts=tuple(zip(ranks, texts, strict=True)))


def _are_alike(blocks: Sequence[Block]) -> bool:
    first = blocks[0]
    return all(block_values.are_alike(first, each) and each.dtype == first.dtype for each in blocks)


def _of_blocks(blocks: Sequence[tuple[RankSet, Block]]) -> LongDifferences:
    first = blocks[0][1]
    values = block_values.flat(first)
    found = block_values.places_that_differ(each for _, each in blocks)
    runs = block_values.count_runs(first, found)
    longest = max((count for _, count in block_values.runs_of(first, found)), default=0)
    is_long = longest > block_values.MOST_SHOWN
    parts = by_prominence(blocks, found)
    if runs > _MOST_RUNS or ((runs > _SCATTERED or is_long) and 2 * len(found) >= len(values)):
        few = [part for part in parts[:2] if 2 * len(part) < len(found)]
        places = [place for part in few for place in _places_of(blocks, part)]
        return LongDifferences(tuple(places[:_MOST_PROMINENT]), summary=_summary(blocks))
    # A long run hides a NaN in it: its text is a part of it.
    parted = parts if is_long and sum(map(len, parts[:2])) < len(found) else [found]
    return LongDifferences(tuple(place for part in parted for place in _places_of(blocks, part)))


def _places_of(blocks: Sequence[tuple[RankSet, Block]], found: NDArray[Any]) -> Iterator[Place]:
    """Yield a place for each run of neighbours among *found*, up to a limit."""
    first = blocks[0][1]
    for at, count in itertools.islice(block_values.runs_of(first, found), _MOST_RUNS):
        elements = slice(at, at + count)
        is_part = count > block_values.MOST_SHOWN
        members: dict[tuple[str, int], list[RankSet]] = {}
        shown: dict[tuple[str, int], str] = {}
        wholes: list[NDArray[Any]] = []
        for ranks, block in blocks:
            text = block_values.sequence_text(block, at, count)
            # Texts of long runs are parts of them. NaNs of other bits are equal.
            number = _number_in(wholes, block_values.flat(block)[elements]) if is_part else 0
            key = (normalize_values(text, []), number)
            members.setdefault(key, []).append(ranks)
            shown.setdefault(key, text)
        texts = [(RankSet.union(sets), shown[key]) for key, sets in members.items()]
        texts.sort(key=lambda pair: (-len(pair[0]), pair[0].first))
        summary = _summary(blocks, elements) if is_part else None
        yield Place(block_values.path_of(first, at, count), tuple(texts), summary=summary)


def _number_in(known: list[NDArray[Any]], values: NDArray[Any]) -> int:
    """Return the number of the first equal array in *known*; append an array that is new."""
    for number, other in enumerate(known):
        if not len(block_values.differing(other, values, EXACT)):
            return number
    known.append(values)
    return len(known) - 1


def _summary(
    blocks: Sequence[tuple[RankSet, Block]], elements: slice = slice(None)
) -> Summary | None:
    if blocks[0][1].dtype[1] not in "biuf":
        return None
    return merge(
        summarize_array(ranks, block_values.flat(block)[elements]) for ranks, block in blocks
    )
