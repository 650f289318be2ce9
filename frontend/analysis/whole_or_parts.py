"""Values that differ everywhere: whether a reader compares them whole, or part by part."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.frontend.analysis.diff import Comparison
from pgdb.frontend.analysis.values import Group, Node, filled
from pgdb.ranks import RankSet

_MOST_AT_ONCE = 200
"""Longest text of a structure in which a reader sees the fields at once."""


def are_clearer_whole(nodes: Sequence[tuple[RankSet, Node]], comparison: Comparison) -> bool:
    """Return whether values have nothing in common, and are no long structures.

    In long structures one would search for the fields, and would not see a single outlier. Texts
    of several lines repeat all names of the fields. Texts without the fields (``{...}``) are equal.
    """
    sets = [{ranks for ranks, _ in place.texts} for place in comparison.places]
    if comparison.has_common or any(each != sets[0] for each in sets[1:]):
        return False
    if not all(isinstance(node, Group) and not node.is_array for _, node in nodes):
        return True
    texts = [filled(node) for _, node in nodes]
    if any("\n" in each or len(each) > _MOST_AT_ONCE for each in texts):
        return False
    return len({*texts}) == len(texts)
