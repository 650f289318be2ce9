"""The lines of traces."""

from __future__ import annotations

import math

from msgspec import UNSET

from pgdb.frontend.analysis.trace_tables import TraceTable, TraceValue
from pgdb.frontend.api.traces import Trace
from pgdb.frontend.show.json.json_classes import ClassText, classes_of, missing_ranks
from pgdb.frontend.show.json.json_parts import TracedRow, TracedValue
from pgdb.frontend.show.json.json_shapes import TraceLine
from pgdb.records import parse_number


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
