"""Numbers of one rank, summed up before they travel."""

from __future__ import annotations

from pgdb.merge.summary import Bins, Summary, empty_bins
from pgdb.merge.totals import Totals, summarize_array
from pgdb.overlay.messages import Reduce
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, Block, Failure, Record, Value, Various, parse_number

NUMBER = Various(template=Value(text=PLACEHOLDER))
"""Answer of every rank whose numbers are summed up."""


def sum_up(record: Record, operation: Reduce, rank: int) -> tuple[Record, tuple[Summary, ...]]:
    """Return the answer for the numbers in *record*, a Value or a Block, and their summary."""
    bins = empty_bins(operation.low, operation.high, operation.bins) if operation.bins else None
    match record:
        case Value(text=text):
            if parse_number(text) is None:
                return Failure(message=f"{operation.expression} is no number: {_cut(text)}"), ()
            totals = Totals(bins)
            totals.add_text(RankSet([rank]), text)
            return NUMBER, (totals.summary(),)
        case Block():
            return _sum_up_block(record, operation, rank, bins)
        case _:
            return record, ()


def _sum_up_block(
    block: Block, operation: Reduce, rank: int, bins: Bins | None
) -> tuple[Record, tuple[Summary, ...]]:
    # Imported only here: it takes 0.1 s and 20 MB, and most sessions read no array.
    import numpy

    values = numpy.frombuffer(block.data, block.dtype)
    if values.dtype.kind not in "biuf":
        what = f"{operation.expression} is no array of real numbers"
        ways = ", ".join(f"{part}({operation.expression})" for part in ("abs", "real"))
        return Failure(message=f"{what}; write {ways} or imag({operation.expression})"), ()
    return NUMBER, (summarize_array(rank, values, bins, is_rounded=block.is_rounded),)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"
