"""Statistics of the numbers of many ranks as text: range, mean, histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.histogram import has_integers
from pgdb.frontend.show.text import render
from pgdb.frontend.show.text.bars import bars_title, sparkline
from pgdb.frontend.show.text.layout import brackets
from pgdb.frontend.show.text.summary_text import ROUNDED
from pgdb.merge.summary import SKETCH_SIZE, Number, Summary, iterate_bins, power_range
from pgdb.ranks import RankSet

_BAR_WIDTH = 30
_USUAL_WIDTH = 78
_LEAST_WIDTH = 20
_NARROW = 60
_FEW_TEXT = 24


def statistics(
    expression: str, found: Summary | None, ranks: RankSet, answer: Answer, *, width: int = 0
) -> str:
    """Return the statistics of ranks as text, and ranks without a number; width 0 is the usual."""
    width = max(_LEAST_WIDTH, width or _USUAL_WIDTH)
    lines = []
    if found is not None:
        lines.append(f"{brackets(ranks)} {expression}: {_count(found, ranks)}")
        lines += _numbers(found, width)
    lines += [
        f"{brackets(each.ranks)} {render.record(each)}" for each in answer.classes if each.is_error
    ]
    return "\n".join((*lines, *render.missing(answer)))


def _count(found: Summary, ranks: RankSet) -> str:
    numbers = "1 number" if found.count == 1 else f"{found.count} numbers"
    if len(ranks) > 1 and found.count > len(ranks):
        numbers += f" on {len(ranks)} ranks"
    return numbers


def _numbers(found: Summary, width: int) -> Iterator[str]:
    # Ranks without a finite number come first: below a histogram they would be overlooked.
    for ranks, what in (
        (found.nan, "NaN"),
        (found.above, "+infinity"),
        (found.below, "-infinity"),
        (found.others, "no number"),
    ):
        if ranks:
            yield f"  {what} on {brackets(ranks)}"
    if found.low is not None and found.high is not None:
        low = f"{_show(found.low)} {_few(found.at_low)}"
        high = f"{_show(found.high)} {_few(found.at_high)}"
        yield from _columns((f"min  {low:<32}", f"max     {high}"), width)
        about = "about " if found.distinct >= SKETCH_SIZE else ""
        distinct = f"{about}{found.distinct} different"
        deviation = f"std dev {found.deviation:.6g}"
        yield from _columns((f"mean {found.mean:<12.6g}", f"{distinct:<19}", deviation), width)
        if found.is_rounded:
            yield f"  ({ROUNDED})"
        title = f"  {bars_title(found)} "
        if line := sparkline(found, width - len(title)):
            yield f"{title}{line}"
        yield from _histogram(found, width)


def _columns(parts: Sequence[str], width: int) -> Iterator[str]:
    """Yield cells in one line, or one cell per line if they do not fit."""
    line = f"  {' '.join(parts)}".rstrip()
    if len(line) <= width:
        yield line
    else:
        yield from (f"  {part}".rstrip() for part in parts)


def _show(number: Number) -> str:
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def _few(ranks: RankSet) -> str:
    text = brackets(ranks)
    return text if len(text) <= _FEW_TEXT else f"[{ranks.first},… {len(ranks)} ranks]"


def _histogram(found: Summary, width: int) -> Iterator[str]:
    is_integer = False
    if found.bins is not None and found.bins.high > found.bins.low:
        rows = list(iterate_bins(found.bins))
        is_integer = has_integers(found.bins, found)
    elif len(found.exponents) > 1:
        powers = [(power_range(power), count) for power, count in sorted(found.exponents.items())]
        rows = [(min(ends), max(ends), count) for ends, count in powers]
    else:
        return
    # Consecutive empty bins are one line.
    shown: list[tuple[float, float, int]] = []
    for is_empty, members in groupby(rows, key=lambda row: not row[2]):
        block = list(members)
        one = is_empty and len(block) > 2
        shown += [(block[0][0], block[-1][1], 0)] if one else block
    is_narrow = width < _NARROW
    labels = _bin_labels(shown, found.high if is_integer else None, 0 if is_narrow else 11)
    most = max(count for *_, count in shown)
    column = max(0 if is_narrow else 8, len(str(most)))
    bar_width = min(_BAR_WIDTH, width - max(map(len, labels)) - column - len("    "))
    for label, (_, _, count) in zip(labels, shown, strict=True):
        bar = "█" * math.ceil(count / most * max(0, bar_width))
        yield f"  {label} {count:>{column}} {bar}".rstrip()


def _bin_labels(
    rows: Sequence[tuple[float, float, int]], highest: Number | None, column: int
) -> tuple[str, ...]:
    """Return the ends of bins in columns of at least *column*; integers have integer ends."""
    if highest is not None:
        # Bins of integers end halfway between two integers.
        pairs = [
            (str(math.ceil(low)), str(min(math.floor(high), int(highest)))) for low, high, _ in rows
        ]
    else:
        edges = sorted({each for low, high, _ in rows for each in (low, high)})
        digits = next(
            (
                digits
                for digits in range(4, 17)
                if len({f"{edge:.{digits}g}" for edge in edges}) == len(edges)
            ),
            17,
        )
        pairs = [(f"{low:.{digits}g}", f"{high:.{digits}g}") for low, high, _ in rows]
    column = max(column, *(len(each) for pair in pairs for each in pair))
    return tuple(
        f"{low:>{column}} … {high:<{column}}"
        if low != high
        else f"{low:>{column}}   {'':<{column}}"
        for low, high in pairs
    )
