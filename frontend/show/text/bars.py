"""Bars by rank: the numbers of many ranks in one line of characters."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pgdb.merge.summary import Number, Summary

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(summary: Summary, width: int) -> str:
    """Return the numbers in order of ranks as a line of at most *width* bars.

    Arrays show as their greatest numbers, or as their least numbers where those vary more from rank
    to rank (see :func:`bars_title`). Between the least number and the greatest number of all ranks,
    the height is to scale, so nearly equal arrays have equal bars. Nothing is returned where all
    bars would be equal.
    """
    known = _known_cells(summary)
    if (
        min(len(known), width) < 2
        or summary.low is None
        or summary.high is None
        or summary.low == summary.high
    ):
        return ""
    # Doubles would round the range of large integers to 0, overflow for large doubles, and halve
    # the least double to 0.
    bottom, top = Fraction(summary.low), Fraction(summary.high)
    middle = (bottom + top) / 2
    side = _side(summary, known)
    heights = []
    cells = min(len(known), width)
    for cell in range(cells):
        part = known[cell * len(known) // cells : (cell + 1) * len(known) // cells]
        # A cell shows its extreme, which an average would hide.
        if side == "max":
            peak = max(high for _, high in part)
        elif side == "min":
            peak = min(low for low, _ in part)
        else:
            ends = (each for pair in part for each in pair)
            peak = max(ends, key=lambda value: abs(Fraction(value) - middle))
        height = (Fraction(peak) - bottom) / (top - bottom)
        heights.append(min(len(_BARS) - 1, int(height * len(_BARS))))
    if side and len({*heights}) == 1:
        return ""
    return "".join(_BARS[height] for height in heights)


def bars_title(summary: Summary) -> str:
    """Return the name of the numbers that :func:`sparkline` draws: ``max by rank`` for arrays."""
    return f"{_side(summary, _known_cells(summary))} by rank".lstrip()


def title_beside_numbers(summary: Summary) -> str:
    """Return the title of the bars of arrays; numbers of single ranks need none."""
    return bars_title(summary) if _has_arrays(summary) else ""


def _known_cells(summary: Summary) -> list[tuple[Number, Number]]:
    _, lows, highs = summary.profile
    return [
        (low, high)
        for low, high in zip(lows, highs, strict=True)
        if low is not None and high is not None
    ]


def _has_arrays(summary: Summary) -> bool:
    """Return whether ranks have several numbers each."""
    if summary.block == 1 and any(low != high for low, high in _known_cells(summary)):
        return True
    return summary.count > len(summary.cells) * summary.block


def _side(summary: Summary, known: Sequence[tuple[Number, Number]]) -> str:
    """Return the end of the ranks' arrays that varies most; empty for single numbers."""
    if not _has_arrays(summary) or not known:
        return ""
    lows = [Fraction(low) for low, _ in known]
    highs = [Fraction(high) for _, high in known]
    return "min" if max(lows) - min(lows) > max(highs) - min(highs) else "max"
