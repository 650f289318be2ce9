"""The line of ``progress``."""

from __future__ import annotations

from pgdb.frontend.analysis.progress import Progress, Row
from pgdb.frontend.show.json.json_parts import ProgressRow
from pgdb.frontend.show.json.json_shapes import SamplesLine


def progress(found: Progress, command: str) -> SamplesLine:
    """Return the line of some samples."""
    return SamplesLine(
        time=0.0,
        command=command,
        times_s=found.times_s,
        rows=tuple(map(_row, found.rows)),
        behind=str(found.behind),
        recorded=found.recorded,
        stands_still=found.stands_still,
    )


def _row(row: Row) -> ProgressRow:
    last = row.last
    where = last.where if last is not None else None
    return ProgressRow(
        ranks=str(row.ranks),
        symbols=row.symbols,
        call=last.call.function if last is not None and last.call is not None else "",
        activity=last.activity if last is not None else "",
        function=where.function if where is not None else "",
        file=where.file if where is not None else "",
        line=where.line if where is not None else 0,
    )
