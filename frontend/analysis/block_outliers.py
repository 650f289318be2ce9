"""Prominent elements of arrays that differ: a NaN on some ranks, or one rank beside all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgdb.frontend.analysis import block_values
from pgdb.ranks import RankSet
from pgdb.records import Block

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FEWEST_RANKS = 3
"""Fewest ranks of which one can differ from all others."""


def by_prominence(
    blocks: Sequence[tuple[RankSet, Block]], places: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return *places*, at which arrays differ, in three parts: the most prominent part first.

    The elements of the first part are finite on some ranks only. At those of the second one rank
    differs from all others, which agree. All arrays have one shape.
    """
    import numpy

    columns = [(len(ranks), block_values.flat(block)[places]) for ranks, block in blocks]
    is_first = numpy.zeros(len(places), bool)
    if columns[0][1].dtype.kind in "fc":
        finite = [numpy.isfinite(values) for _, values in columns]
        is_first = numpy.logical_or.reduce(finite) & ~numpy.logical_and.reduce(finite)
    is_second = numpy.zeros(len(places), bool)
    count = sum(weight for weight, _ in columns)
    if count >= _FEWEST_RANKS:
        # Of the first two arrays at least one is that of the others.
        for _, usual in columns[:2]:
            agreeing = sum(weight * _are_equal(usual, values) for weight, values in columns)
            is_second |= agreeing == count - 1
    is_second &= ~is_first
    return places[is_first], places[is_second], places[~(is_first | is_second)]


def _are_equal(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    """Return where two arrays of one type are equal; a NaN equals any NaN."""
    import numpy

    equal: NDArray[Any] = one == other
    if one.dtype.kind in "fc":
        equal |= numpy.isnan(one) & numpy.isnan(other)
    return equal
