"""Traces and their values as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.trace_tables import TraceTable, TraceValue
from pgdb.frontend.api.traces import Trace
from pgdb.frontend.show.text import render
from pgdb.frontend.show.text.layout import brackets
from pgdb.merge.normalize import DIFFERENT
from pgdb.merge.summary import Summary
from pgdb.ranks import RankSet
from pgdb.records import parse_number

_FEW_VALUES = 3


def trace_line(trace: Trace) -> str:
    """Return a trace in one line."""
    collects = ", ".join(trace.expressions)
    only_if = f" if {trace.condition}" if trace.condition else ""
    every = f", every {trace.every} hits" if trace.every > 1 else ""
    first = f", the first {trace.first} rows" if trace.first else ""
    ranks = brackets(trace.ranks)
    return f"{ranks} trace {trace.number} at {trace.place}{only_if}: {collects}{every}{first}"


def rows_text(table: TraceTable) -> str:
    """Return the number of rows in words."""
    if table.least == table.most:
        return "1 row" if table.most == 1 else f"{table.most} rows"
    return f"{table.least} to {table.most} rows"


def table_text(table: TraceTable) -> str:
    """Return rows of a trace as a table: one value where all ranks have it."""
    lines = [f"trace {table.number}: {rows_text(table)} on {brackets(table.ranks)}"]
    if table.full:
        lines[0] += f"; no room for more on {brackets(table.full)}"
    if table.rows:
        everybody = table.ranks
        grid = [["row", *table.expressions]]
        grid += [
            [str(row.number), *(_cell(values, everybody) for values in row.cells)]
            for row in table.rows
        ]
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        for first, *cells in grid:
            padded = [f"{each:<{width}}" for each, width in zip(cells, widths[1:], strict=True)]
            lines.append("  ".join([f"{first:>{widths[0]}}", *padded]).rstrip())
    return "\n".join((*lines, *without_rows(table.answer)))


def without_rows(answer: Answer) -> list[str]:
    """Return lines with the ranks whose rows could not be read, and the reasons."""
    failed = [f"{brackets(each.ranks)} {render.record(each)}" for each in answer.errors]
    return [*failed, *render.missing(answer)]


def _cell(values: Iterable[TraceValue], everybody: RankSet) -> str:
    """Return the values of all ranks in one cell."""
    listed = list(values)
    if len(listed) == 1 and listed[0].summary is None:
        text = listed[0].text
        return text if listed[0].ranks == everybody else f"{brackets(listed[0].ranks)} {text}"
    if len(listed) > _FEW_VALUES and (span := _span(listed)):
        return span
    if len(listed) > _FEW_VALUES and all(each.summary is None for each in listed):
        most = sorted(listed, key=lambda each: -len(each.ranks))
        rest = RankSet.union(each.ranks for each in most[_FEW_VALUES:])
        shown = sorted(most[:_FEW_VALUES], key=lambda each: each.ranks.first)
        parts = [f"{brackets(each.ranks)} {each.text}" for each in shown]
        return ", ".join([*parts, f"{brackets(rest)} {len(most) - _FEW_VALUES} other values"])
    return ", ".join(
        f"{brackets(each.ranks)} "
        + (each.text if each.summary is None else _summary_text(each.text, each.summary))
        for each in listed
    )


def _span(values: Sequence[TraceValue]) -> str:
    """Return the least and the greatest value if all are finite numbers, else nothing."""
    numbers = [(parse_number(each.text), each) for each in values if each.summary is None]
    finite = [(number, each) for number, each in numbers if number is not None]
    if len(finite) < len(values) or not all(math.isfinite(number) for number, _ in finite):
        return ""
    low = min(finite, key=lambda pair: pair[0])[1]
    high = max(finite, key=lambda pair: pair[0])[1]
    return f"{low.text} {brackets(low.ranks)} … {high.text} {brackets(high.ranks)}"


def _summary_text(text: str, summary: Summary) -> str:
    """Return the range of many values, behind the text that they have in common."""
    common = "" if text.startswith(DIFFERENT) else f"{text}: "
    parts = []
    if summary.low is not None and summary.high is not None:
        parts.append(
            f"{summary.low:.6g} {brackets(summary.at_low)} … "
            f"{summary.high:.6g} {brackets(summary.at_high)}"
        )
    parts += [f"NaN on {brackets(summary.nan)}"] if summary.nan else []
    infinite = summary.above | summary.below
    parts += [f"infinity on {brackets(infinite)}"] if infinite else []
    parts += [f"no number on {brackets(summary.others)}"] if summary.others else []
    return common + "; ".join(parts)
