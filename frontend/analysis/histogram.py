"""Edges of histogram bins: between integers for integers, equal widths for other numbers."""

from __future__ import annotations

from pgdb.merge.summary import Bins, Summary

_MOST_EXACT = 1 << 50  # up to here a double has room for the half between two integers
_ROUGHLY = 1.25  # the number of different values is an estimate


def bin_ends(summary: Summary, count: int) -> tuple[float, float, int]:
    """Return low end, high end and number of bins, at most *count*.

    Bins of integers end halfway between two integers, so that no integer lies on an edge, and there
    are at most as many bins as integers.
    """
    low, high = summary.low, summary.high
    assert low is not None and high is not None
    if not is_integer(summary):
        return float(low), float(high), count
    span = int(high) - int(low) + 1
    width = -(-span // min(count, span))
    bins = -(-span // width)
    return low - 0.5, low - 0.5 + width * bins, bins


def is_integer(summary: Summary) -> bool:
    """Return whether the numbers look like integers; GDB prints a double of 3.0 as 3, too."""
    low, high = summary.low, summary.high
    if not isinstance(low, int) or not isinstance(high, int):
        return False
    if max(abs(low), abs(high)) > _MOST_EXACT or summary.distinct > _ROUGHLY * (high - low + 1):
        return False
    return all(each.fraction.denominator == 1 for each in (summary.total, summary.squares))


def has_integers(bins: Bins, summary: Summary) -> bool:
    """Return whether :func:`bin_ends` made *bins* for integers."""
    return summary.low is not None and is_integer(summary) and bins.low == summary.low - 0.5
