"""Differences of two values: fields and elements, with the size of each difference."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import msgspec

from pgdb.frontend.analysis import block_values, values
from pgdb.frontend.analysis.closeness import Closeness, complex_distance, is_finite
from pgdb.frontend.analysis.diff import NONE, NOT_SHOWN
from pgdb.frontend.analysis.diff import compare as differences_of
from pgdb.frontend.analysis.value_nodes import node_of
from pgdb.frontend.analysis.values import complex_of, exact_of, scalar_of
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Block, Record, Value, Variables

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_ELEMENTS = 100_000
_MOST_RUNS = 10_000
"""Number of runs of different elements above which arrays differ in one part."""
_SCATTERED = 4
_LARGEST = sys.float_info.max

_BEYOND = "the part that GDB does not print"
_BEFORE, _AFTER = RankSet([0]), RankSet([1])


class Part(msgspec.Struct, frozen=True):
    """A place in a value at which two sides differ."""

    path: str
    """Path, such as ``.x[1]``; empty for the whole value."""
    before: str
    """Text on the first side; empty if that side has no such place."""
    after: str
    absolute: float | None = None
    """Absolute difference, if both are finite numbers."""
    relative: float | None = None
    """Absolute difference divided by the larger magnitude; None if both are 0."""


def have_parts(one: Record, other: Record) -> bool:
    """Return whether two records are both values or both lists of variables."""
    both = (one, other)
    return all(isinstance(each, Value) for each in both) or all(
        isinstance(each, Variables) for each in both
    )


def parts_of(
    mine: EquivalenceClass[Record], theirs: EquivalenceClass[Record], close: Closeness
) -> tuple[Part, ...]:
    """Return the places at which two values differ; empty if the records are no values."""
    if not have_parts(mine.record, theirs.record):
        return ()
    if isinstance(mine.record, Value) and isinstance(theirs.record, Value):
        numbers, others = mine.record.whole, theirs.record.whole
        if isinstance(numbers, Block) and isinstance(others, Block):
            return _parts_of_blocks(numbers, others, close)
        one, other = mine.record.text, theirs.record.text
        if scalar_of(one) is not None and scalar_of(other) is not None:
            part = _part("", one, other, close)
            return () if part is None else (part,)
    before, after = _trees(mine), _trees(theirs)
    found = [*_beyond(mine.record, theirs.record)]
    for name in dict.fromkeys((*before, *after)):
        if name not in before or name not in after:
            one, other = (
                values.filled(side[name]) if name in side else "" for side in (before, after)
            )
            found.append(Part(name, one, other))
            continue
        sides = ((_BEFORE, before[name]), (_AFTER, after[name]))
        for place in differences_of(sides, sets_by_position=not close.is_exact).places:
            one, other = (
                next((text for ranks, text in place.texts if not ranks.isdisjoint(side)), "")
                for side in (_BEFORE, _AFTER)
            )
            if NOT_SHOWN in (one, other):
                continue  # one side does not reach that far: there is nothing to compare
            one, other = ("" if text == NONE else text for text in (one, other))
            if (part := _part(f"{name}{place.path}", one, other, close)) is not None:
                found.append(part)
    return tuple(found)


def _beyond(mine: Record, theirs: Record) -> Iterator[Part]:
    """Yield the variables that are equal as far as GDB prints them, but have other hashes."""
    if not isinstance(mine, Variables) or not isinstance(theirs, Variables):
        return
    for one, other in zip(mine.items, theirs.items, strict=False):
        is_alike = one.name == other.name and one.value == other.value
        if is_alike and one.digest and other.digest and one.digest != other.digest:
            before, after = (f"{_BEYOND}, hash {each.digest}" for each in (one, other))
            yield Part(one.name, before, after)


def _trees(each: EquivalenceClass[Record]) -> dict[str, values.Node]:
    """Return the value, or each variable by name, as a tree."""
    if isinstance(each.record, Value):
        return {"": node_of(each)}
    assert isinstance(each.record, Variables)
    found: dict[str, values.Node] = {}
    used = 0
    for item in each.record.items:
        marks = item.value.count(SLOT) + item.bounds.count(SLOT)
        name = item.name
        # A name can stand for several variables, in different blocks.
        while name in found:
            name += "'"
        found[name] = values.parse(item.value, each.slots[used : used + marks])
        used += marks
    return found


def _parts_of_blocks(one: Block, other: Block, close: Closeness) -> tuple[Part, ...]:
    """Return the differences of two arrays of numbers: a part for each run of elements.

    Arrays that differ in very many places, or in shape, are one part.
    """
    if not block_values.are_alike(one, other):
        return (Part("", block_values.text_of(one), block_values.text_of(other)),)
    mine, theirs = block_values.flat(one), block_values.flat(other)
    places = block_values.differing(mine, theirs, close)
    if not len(places):
        return ()
    runs = block_values.count_runs(one, places)
    if runs > _MOST_RUNS or (runs > _SCATTERED and 2 * len(places) >= len(mine)):
        sizes = _sizes(mine[places], theirs[places])
        return (Part("", block_values.text_of(one), block_values.text_of(other), *sizes),)
    return tuple(
        Part(
            block_values.path_of(one, at, count),
            block_values.sequence_text(one, at, count),
            block_values.sequence_text(other, at, count),
            *_sizes(mine[at : at + count], theirs[at : at + count]),
        )
        for at, count in block_values.runs_of(one, places)
    )


def _sizes(mine: NDArray[Any], theirs: NDArray[Any]) -> tuple[float | None, float | None]:
    """Return the largest absolute and relative differences; None if some are not finite."""
    import numpy

    if mine.dtype.kind == "b" or theirs.dtype.kind == "b":
        return None, None
    with numpy.errstate(all="ignore"):
        sizes, larger = block_values.distances(mine, theirs)
        if not numpy.isfinite(sizes).all():
            return None, None
        relative = numpy.where(larger > 0, sizes / larger, 0)
    return float(sizes.max()), float(relative.max())


def _part(path: str, before: str, after: str, close: Closeness) -> Part | None:
    """Return the difference of two texts, over all elements of two arrays; None if equal."""
    one = [before] if scalar_of(before) is not None else _elements(before)
    other = [after] if scalar_of(after) is not None else _elements(after)
    pairs = list(zip(one, other, strict=True)) if len(one) == len(other) else []
    sizes = []
    are_numbers = bool(pairs)
    for mine, theirs in pairs:
        if close.texts(mine, theirs):
            continue
        if (size := _size(mine, theirs)) is None:
            are_numbers = False
        else:
            sizes.append(size)
    if are_numbers and not sizes:
        return None
    if not are_numbers:
        return Part(path, before, after)
    absolute, relative = (max(each) for each in zip(*sizes, strict=True))
    return Part(path, before, after, absolute, relative)


def _size(before: str, after: str) -> tuple[float, float] | None:
    """Return the absolute and relative difference of two numbers; None unless both are finite."""
    mine, theirs = exact_of(before), exact_of(after)
    if mine is not None and theirs is not None:
        if not (is_finite(mine) and is_finite(theirs)):
            return None
        a, b = Fraction(mine), Fraction(theirs)
        size = abs(b - a)
        relative = float(size / max(abs(a), abs(b)))
        return (float(size) if size <= _LARGEST else math.inf), relative
    one, other = complex_of(before), complex_of(after)
    if one is None or other is None or not all(is_finite(each) for each in (*one, *other)):
        return None
    distance, larger = complex_distance(one, other)
    return distance, distance / larger if larger else 0.0


def _elements(text: str) -> list[str]:
    """Return the leaves of a value in order; empty if there are too many."""
    found: list[str] = []

    def walk(node: values.Node) -> None:
        if isinstance(node, values.Leaf):
            found.append(node.text)
            return
        for item in node.items:
            begin = len(found)
            walk(item.value)
            if item.count > 1 and len(found) <= _MOST_ELEMENTS:
                found.extend(found[begin:] * min(item.count - 1, _MOST_ELEMENTS))

    walk(values.parse(text))
    return found if len(found) <= _MOST_ELEMENTS else []
