"""The lines of traces."""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import UNSET

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.trace_tables import TraceTable, TraceValue
from pgdb.frontend.api.traces import Trace
from pgdb.frontend.show.json.json_classes import ClassText, classes_of, missing_ranks
from pgdb.frontend.show.json.json_parts import TracedRow, TracedValue, TracePlace, TraceState
from pgdb.frontend.show.json.json_shapes import TraceLine, TracesLine
from pgdb.merge.classes import Missing
from pgdb.records import Text, parse_number


def trace(table: TraceTable, made: Trace, text: ClassText) -> TraceLine:
    """Return the line of rows of a trace."""
    return TraceLine(
        time=0.0,
        number=table.number,
        place=made.place,
        expressions=table.expressions,
        ranks=str(table.ranks),
        rows=tuple(
            TracedRow(
                row=row.number,
                values=tuple(tuple(map(_value, values)) for values in row.cells),
            )
            for row in table.rows
        ),
        least=table.least,
        most=table.most,
        full=str(table.full),
        errors=classes_of(table.errors, text),
        missing=missing_ranks(table.missing),
    )


def made(found: Trace, answer: Answer, text: ClassText) -> TracesLine:
    """Return the line of a trace that was set; *answer* has its places and the failures."""
    places = tuple(
        TracePlace(ranks=str(each.ranks), text=each.filled.text)
        for each in answer.classes
        if isinstance(each.filled, Text)
    )
    return TracesLine(
        time=0.0,
        event="set",
        traces=(_state(found, places),),
        errors=classes_of(answer.errors, text),
        missing=missing_ranks(answer.missing),
    )


def listed(found: Iterable[Trace]) -> TracesLine:
    """Return the line of a list of traces."""
    return TracesLine(
        time=0.0,
        event="listed",
        traces=tuple(_state(each) for each in found),
        missing=missing_ranks(Missing()),
    )


def _state(found: Trace, places: tuple[TracePlace, ...] = ()) -> TraceState:
    return TraceState(
        number=found.number,
        place=found.place,
        expressions=found.expressions,
        ranks=str(found.ranks),
        condition=found.condition,
        every=found.every,
        first=found.first,
        places=places,
    )


def _value(value: TraceValue) -> TracedValue:
    summary = value.summary
    if summary is None:
        number = parse_number(value.text)
        is_plain = number is not None and math.isfinite(number)
        plain = number if is_plain and number is not None else value.text
        return TracedValue(ranks=str(value.ranks), value=plain)
    return TracedValue(
        ranks=str(value.ranks),
        low=UNSET if summary.low is None else summary.low,
        high=UNSET if summary.high is None else summary.high,
        mean=summary.mean if math.isfinite(summary.mean) else UNSET,
    )
