"""The parts of a watched value that have changed."""

from __future__ import annotations

import msgspec

from pgdb.frontend.analysis.diff import compare
from pgdb.frontend.analysis.long_differences import from_difference
from pgdb.frontend.analysis.values import Group, Node, parse
from pgdb.merge.normalize import DIFFERENT
from pgdb.ranks import RankSet
from pgdb.records import ARROW, Value

_OLD, _NEW = RankSet([0]), RankSet([1])


class Change(msgspec.Struct, frozen=True):
    """One part of a value that has changed."""

    path: str
    """Path from the value, see :class:`~pgdb.frontend.analysis.diff.Place`."""
    old: str
    new: str

    @property
    def text(self) -> str:
        """The old and the new text."""
        return f"{self.old}{ARROW}{self.new}"


def changes(old: Value, new: Value) -> tuple[Change, ...]:
    """Return the parts of a structure, array or container of one rank that have changed.

    Nothing is returned for other values, for values that have nothing in common, and where no part
    of what is known differs.
    """
    before, after = _node_of(old), _node_of(new)
    if not (isinstance(before, Group) and isinstance(after, Group)):
        return ()
    comparison = compare([(_OLD, before), (_NEW, after)])
    if comparison.common == DIFFERENT:
        return ()
    found = []
    for place in comparison.places:
        texts = {0: "", 1: ""}
        for ranks, text in place.texts:
            texts |= dict.fromkeys(ranks, text)
        one, other = from_difference([texts[0], texts[1]])
        found.append(Change(place.path, one, other))
    return tuple(found)


def _node_of(value: Value) -> Node:
    # Both values are of one process, so that an address that changes is a change.
    whole = value.whole if isinstance(value.whole, str) else value.text
    return parse(whole, [value.bounds] if value.bounds else ())
