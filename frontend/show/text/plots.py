"""Numbers drawn in character cells: bars by rank or index, histograms, heat maps. Plain text.

A cell shows the extremes of its numbers, never their average. N marks a NaN, ^ and v mark
infinities, missing numbers are blank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgdb.ranks import RankSet

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDTH = 80
_BARS = " ▁▂▃▄▅▆▇█"
_HEIGHT = 8
_SPREAD = "░"
_SHADES = ".:-=+*#%@"
MOST_BARS_WIDTH = 8
_FEW_LABELS = 12
_TICK_WIDTH = 8
_MOST_ROWS = 40
_MOST_NUMBERS = 12
"""Maximum rows and columns of an array that is shown as numbers."""
_RANKS_WIDTH = 24
_LEAST_BAR = 4


def numbers(values: Any) -> NDArray[Any]:
    """Return an array as real numbers; complex numbers become their absolute values."""
    import numpy

    found = numpy.asarray(values)
    if found.dtype.kind == "c":
        found = numpy.abs(found)
    return found.astype(numpy.float64)


def finite_range(values: Any) -> tuple[float, float]:
    """Return the least and the greatest finite number; zeros if there is none."""
    import numpy

    drawn = numbers(values)
    usual = drawn[numpy.isfinite(drawn)]
    return (float(usual.min()), float(usual.max())) if usual.size else (0.0, 0.0)


def short(number: float) -> str:
    """Return the short text of a number.

    >>> short(0.1), short(1e6), short(-1234567.0)
    ('0.1', '1e+06', '-1.23457e+06')
    """
    return f"{number:g}"


def bars(
    values: Any,
    labels: Sequence[int],
    *,
    highs: Any = None,
    axis: str = "rank",
    width: int = WIDTH,
    height: int = _HEIGHT,
) -> str:
    """Draw numbers as vertical bars with *labels* below.

    If there are more numbers than columns, several share a bar, which is solid up to the least and
    shaded up to the greatest. *highs* has the greatest number if each number already stands for
    several.
    """
    import numpy

    lows = numbers(values)
    tops = lows if highs is None else numbers(highs)
    low, high = finite_range(numpy.concatenate([lows, tops]))
    ends = [short(high), short(low)]
    margin = max(len(end) for end in ends)
    room = max(8, width - margin - 3)
    share = -(-len(lows) // room)
    cells = [slice(at, at + share) for at in range(0, len(lows), share)]
    cell_width = min(MOST_BARS_WIDTH, room // max(1, len(cells)))
    columns = [_bar(lows[cell], tops[cell], low, high, height) for cell in cells]
    gap = " " if cell_width > 2 else ""
    lines = []
    for row in range(height):
        label = ends[0] if row == 0 else ends[1] if row == height - 1 else ""
        body = "".join(column[row] * (cell_width - len(gap)) + gap for column in columns)
        lines.append(f"{label:>{margin}} |{body}".rstrip())
    lines.append(" " * margin + " +" + "-" * (len(cells) * cell_width))
    lines.append(" " * (margin + 2) + _ticks([labels[cell.start] for cell in cells], cell_width))
    return "\n".join([*lines, " " * (margin + 2) + axis])


def _bar(lows: NDArray[Any], highs: NDArray[Any], low: float, high: float, height: int) -> str:
    """Return the cells of one bar, from top to bottom."""
    import numpy

    usual = numpy.isfinite(lows) & numpy.isfinite(highs)
    column = [" "] * height
    if usual.any():
        scale = (high - low) or 1.0
        least, most = (
            1 + round((float(value) - low) / scale * (height * 8 - 1))
            for value in (lows[usual].min(), highs[usual].max())
        )
        for cell in range(height):
            full = min(8, max(0, least - cell * 8))
            shaded = _SPREAD if most > cell * 8 and full == 0 else _BARS[full]
            column[height - 1 - cell] = shaded
    both = numpy.concatenate([lows, highs])
    if numpy.isposinf(both).any():
        column[0] = "^"
    if numpy.isneginf(both).any():
        column[-1] = "v"
    if numpy.isnan(both).any():
        column[-1] = "N"
    return "".join(column)


def _ticks(labels: Sequence[int], cell_width: int) -> str:
    """Return labels below their columns, as many as fit."""
    line = ""
    step = 1
    widest = max((len(str(label)) for label in labels), default=1) + 1
    while step * cell_width < (widest if len(labels) <= _FEW_LABELS else _TICK_WIDTH):
        step *= 10 if step == 5 else 5
    for at in range(0, len(labels), step):
        line = line.ljust(at * cell_width) + f"{labels[at]} "
    return line.rstrip()


def histogram(values: Any, ranks: Sequence[int] = (), *, bins: int = 10, width: int = WIDTH) -> str:
    """Draw a histogram with bins of equal width.

    *ranks* has the rank of each number, if each rank has one number.
    """
    import numpy

    flat = numbers(values).ravel()
    finite = numpy.isfinite(flat)
    usual = flat[finite]
    rows: list[tuple[str, NDArray[Any]]] = []
    if usual.size:
        low, high = float(usual.min()), float(usual.max())
        if low == high:
            rows.append((short(low), flat == low))
        else:
            edges = numpy.linspace(low, high, bins + 1)
            inside = numpy.clip(numpy.searchsorted(edges, flat, side="right") - 1, 0, bins - 1)
            for at in range(bins):
                name = f"{short(float(edges[at]))} .. {short(float(edges[at + 1]))}"
                rows.append((name, finite & (inside == at)))
    for name, where in (
        ("NaN", numpy.isnan(flat)),
        ("inf", numpy.isposinf(flat)),
        ("-inf", numpy.isneginf(flat)),
    ):
        if where.any():
            rows.append((name, where))
    margin = max((len(name) for name, _ in rows), default=0)
    most = max((int(where.sum()) for _, where in rows), default=1)
    digits = len(str(most))
    room = max(_LEAST_BAR, width - margin - digits - 4 - (_RANKS_WIDTH + 4 if len(ranks) else 0))
    lines = []
    for name, where in rows:
        count = int(where.sum())
        bar = "█" * -(-count * room // most)
        whose = ""
        if len(ranks) and count:
            whose = "  " + few(RankSet(numpy.asarray(ranks)[where].tolist()))
        lines.append(f"{name:>{margin}} | {count:>{digits}} {bar}{whose}".rstrip())
    return "\n".join(lines)


def heat(
    values: Any,
    *,
    missing: Any = None,
    rows: Sequence[int] = (),
    first_column: int = 0,
    axes: tuple[str, str] = ("first index", "second index"),
    scale: tuple[float, float] | None = None,
    width: int = WIDTH,
    most_rows: int = _MOST_ROWS,
) -> str:
    """Draw a matrix as a heat map; *rows* has the labels of the rows, *first_column* that of the
    first column, *missing* marks elements without a number.

    *scale* is the range of the shades; by default it is the range of the numbers.
    """
    import numpy

    matrix = numbers(values)
    absent = numpy.zeros(matrix.shape, bool) if missing is None else numpy.asarray(missing)
    numbers_of_rows = list(rows) or list(range(matrix.shape[0]))
    usual = matrix[numpy.isfinite(matrix) & ~absent]
    low, high = scale if scale is not None else finite_range(usual)
    middle = float(numpy.median(usual)) if usual.size else 0.0
    margin = max(len(str(numbers_of_rows[-1])), len(str(numbers_of_rows[0])), 3)
    room = max(8, width - margin - 3)
    down, across = -(-matrix.shape[0] // most_rows), -(-matrix.shape[1] // room)
    cell_width = 2 if 2 * -(-matrix.shape[1] // across) <= room else 1
    lines = []
    for top in range(0, matrix.shape[0], down):
        cells = "".join(
            _shade(
                matrix[top : top + down, left : left + across],
                absent[top : top + down, left : left + across],
                (low, middle, high),
            )
            * cell_width
            for left in range(0, matrix.shape[1], across)
        )
        lines.append(f"{numbers_of_rows[top]:>{margin}} |{cells}|")
    starts = [first_column + at for at in range(0, matrix.shape[1], across)]
    header = f"{'':>{margin}}  {_ticks(starts, cell_width)}"
    legend = f"{_SHADES[0]} {short(low)}  to  {_SHADES[-1]} {short(high)}  ({_SHADES})"
    marks = _marks(matrix, absent)
    notes = [f"rows: {axes[0]}, columns: {axes[1]}"]
    if down * across > 1:
        notes[0] += f"; a cell stands for {down} x {across} elements"
    notes.append(f"{legend}{'  ' if marks else ''}{'  '.join(marks)}")
    return "\n".join([header.rstrip(), *lines, *notes])


def _shade(values: NDArray[Any], absent: NDArray[Any], scale: tuple[float, float, float]) -> str:
    import numpy

    there = values[~absent]
    if not there.size:
        return " "
    if numpy.isnan(there).any():
        return "N"
    if numpy.isposinf(there).any():
        return "^"
    if numpy.isneginf(there).any():
        return "v"
    # The element that differs most must stay visible, so that nothing is averaged.
    low, middle, high = scale
    peak = float(there[numpy.argmax(numpy.abs(there - middle))])
    step = int((peak - low) / ((high - low) or 1.0) * len(_SHADES))
    return _SHADES[min(len(_SHADES) - 1, max(0, step))]


def _marks(values: NDArray[Any], absent: NDArray[Any]) -> list[str]:
    import numpy

    there = values[~absent]
    return [
        text
        for text, found in (
            ("N NaN", numpy.isnan(there).any()),
            ("^ inf", numpy.isposinf(there).any()),
            ("v -inf", numpy.isneginf(there).any()),
            ("blank: missing", absent.any()),
        )
        if found
    ]


def table(values: Any, missing: Any = None, *, width: int = WIDTH) -> str | None:
    """Return a row or a small matrix as numbers; None if it is too large."""
    import numpy

    matrix = numpy.atleast_2d(numpy.asarray(values))
    if matrix.ndim != 2 or max(matrix.shape) > _MOST_NUMBERS:
        return None
    absent = numpy.zeros(matrix.shape, bool) if missing is None else numpy.atleast_2d(missing)
    texts = [
        ["." if gone else _element(each) for each, gone in zip(row, gaps, strict=True)]
        for row, gaps in zip(matrix.tolist(), absent.tolist(), strict=True)
    ]
    column = max((len(text) for row in texts for text in row), default=1)
    if (column + 1) * matrix.shape[1] > width:
        return None
    return "\n".join(" ".join(f"{text:>{column}}" for text in row) for row in texts)


def _element(number: complex) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def few(ranks: RankSet) -> str:
    """Return a rank set in brackets, shortened to fit a line."""
    text = str(ranks)
    if len(text) < _RANKS_WIDTH:
        return f"[{text}]"
    return f"[{ranks.first},… {len(ranks)} ranks]"
