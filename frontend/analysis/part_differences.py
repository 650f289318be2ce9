"""Differences of two values: fields and elements, with the size of each difference."""

from __future__ import annotations

import math

import msgspec

from pgdb.frontend.analysis import values
from pgdb.frontend.analysis.diff import NONE
from pgdb.frontend.analysis.diff import compare as differences_of
from pgdb.frontend.analysis.values import scalar_of
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import SLOT, Record, Value, Variables

_MOST_ELEMENTS = 100_000

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


class Closeness(msgspec.Struct, frozen=True):
    """Tolerances within which two texts count as equal."""

    tolerance: float
    absolute: float

    @property
    def is_exact(self) -> bool:
        """Whether no tolerance is given."""
        return not (self.tolerance or self.absolute)

    def numbers(self, one: float, other: float) -> bool:
        """Return whether two numbers count as equal."""
        if one == other or (math.isnan(one) and math.isnan(other)):
            return True
        return math.isclose(one, other, rel_tol=self.tolerance, abs_tol=self.absolute)

    def texts(self, one: str, other: str) -> bool:
        """Return whether two texts are the same or numbers that count as equal."""
        if one == other:
            return True
        a, b = scalar_of(one), scalar_of(other)
        return a is not None and b is not None and self.numbers(a, b)


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
        one, other = mine.record.text, theirs.record.text
        if scalar_of(one) is not None and scalar_of(other) is not None:
            part = _part("", one, other, close)
            return () if part is None else (part,)
    before, after = _trees(mine), _trees(theirs)
    found = []
    for name in dict.fromkeys((*before, *after)):
        if name not in before or name not in after:
            one, other = (
                values.filled(side[name]) if name in side else "" for side in (before, after)
            )
            found.append(Part(name, one, other))
            continue
        for place in differences_of(((_BEFORE, before[name]), (_AFTER, after[name]))).places:
            one, other = (
                next((text for ranks, text in place.texts if not ranks.isdisjoint(side)), "")
                for side in (_BEFORE, _AFTER)
            )
            one, other = ("" if text == NONE else text for text in (one, other))
            if (part := _part(f"{name}{place.path}", one, other, close)) is not None:
                found.append(part)
    return tuple(found)


def _trees(each: EquivalenceClass[Record]) -> dict[str, values.Node]:
    """Return the value, or each variable by name, as a tree."""
    if isinstance(each.record, Value):
        return {"": values.parse(each.record.text, each.slots)}
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
        a, b = scalar_of(mine), scalar_of(theirs)
        if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
            are_numbers = False
        else:
            sizes.append((float(abs(b - a)), abs(b - a) / max(abs(a), abs(b))))
    if are_numbers and not sizes:
        return None
    if not are_numbers:
        return Part(path, before, after)
    absolute, relative = (max(each) for each in zip(*sizes, strict=True))
    return Part(path, before, after, absolute, relative)


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
