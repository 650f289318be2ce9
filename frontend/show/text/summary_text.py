"""Summaries of many numbers as text: range, extremes with their ranks, mean, shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pgdb.frontend.show.text.bars import sparkline, title_beside_numbers
from pgdb.frontend.show.text.layout import Layout, Row
from pgdb.merge.summary import SKETCH_SIZE, Summary
from pgdb.ranks import RankSet
from pgdb.records import Value

_SPARKLINE_WIDTH = 32
_USUAL_WIDTH = 100  # of summaries in a log
ROUNDED = "of the numbers as doubles, which do not hold all their digits"
"""Note about a summary of numbers that had more digits."""
_NOWHERE: Mapping[str, str] = MappingProxyType({})


def summary_lines(
    summary: Summary, layout: Layout, used: int = 0, *, places: Mapping[str, str] = _NOWHERE
) -> list[str]:
    """Return the summary of many numbers: range, extremes with their ranks, mean, shape.

    *used* columns precede each line. *places* has the elements that are NaN, inf or -inf.
    """
    if not summary.count and summary.others and not (summary.nan or summary.above or summary.below):
        return ["different texts"]
    room = (layout.width or _USUAL_WIDTH) - used
    lines = []
    if summary.low is not None and summary.high is not None:
        low, high = (number_text(each, layout.base) for each in (summary.low, summary.high))
        count = summary.distinct
        about = "about " if count >= SKETCH_SIZE else ""
        values = f"{about}{count} different values" if count > 1 else "the only number"
        line = f"{low} … {high}, {values}  "
        # The shape is left out if it does not fit.
        title = f"{title_beside_numbers(summary)} "
        bars = sparkline(summary, min(_SPARKLINE_WIDTH, room - len(line) - len(title)))
        lines.append(f"{line}{title.lstrip()}{bars}".rstrip() if bars else line.rstrip())
        parts = [
            f"min {low} {layout.brackets(summary.at_low)}",
            f"max {high} {layout.brackets(summary.at_high)}",
            f"mean {summary.mean:.6g}",
            f"std {summary.deviation:.6g}",
        ]
        if summary.is_rounded:
            parts.append(f"({ROUNDED})")
        lines += _packed(parts, room)
    strange = (
        ("NaN", summary.nan),
        ("inf", summary.above),
        ("-inf", summary.below),
        ("no number", summary.others),
    )
    words = [
        f"{word} on {layout.brackets(ranks)}{places.get(word, '')}"
        for word, ranks in strange
        if ranks
    ]
    return lines + _packed(words, room)


def hung(start: str, lines: Sequence[str]) -> str:
    """Return lines; the first follows *start*, the others stand below it."""
    blank = " " * len(start)
    return "\n".join((blank if number else start) + line for number, line in enumerate(lines))


def _packed(parts: Sequence[str], room: int) -> list[str]:
    """Return parts in as few lines of *room* columns as possible."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= room:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def number_text(number: int | float, base: str = "") -> str:
    """Return an integer in full, as GDB writes it with a format letter, and a float with six
    digits.

    >>> [number_text(100, letter) for letter in ("", "x", "o", "t")], number_text(0.5, "x")
    (['100', '0x64', '0144', '1100100'], '0.5')
    """
    if not isinstance(number, int):
        return f"{number:.6g}"
    if base == "o":
        return f"0{number:o}" if number else "0"
    return f"{number:b}" if base == "t" else f"{number:#x}" if base in ("x", "z") else str(number)


def partial_rows(
    values: Sequence[tuple[RankSet, Value | None]], layout: Layout, indent: str
) -> list[Row]:
    """Return rows that name the ranks whose values have elements that were not looked at.

    A value that only one rank has is named beside others: their list of differences may be short
    of some.
    """
    rows: list[Row] = []
    alone: dict[int, list[RankSet]] = {}
    for ranks, value in values:
        seen = value.looked_at if value is not None else 0
        if seen and len(ranks) > 1:
            note = f"{layout.brackets(ranks)} equal in {_part(seen)};"
            rows.append((None, f"{indent}({note} the others were not looked at)"))
        elif seen and len(values) > 1:
            alone.setdefault(seen, []).append(ranks)
    for seen, sets in alone.items():
        text = layout.brackets(RankSet.union(sets))
        rows.append((None, f"{indent}({text} looked at in {_part(seen)} only)"))
    return rows


def _part(seen: int) -> str:
    return f"the first {seen} elements" if seen > 0 else "the part that GDB prints"
