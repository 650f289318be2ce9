"""The values of a trace as a table: a row for each collected hit, in it the values of all ranks."""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from pgdb.errors import CommandError
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.arrays import Ask
from pgdb.frontend.analysis.rich_display import RichText
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.merge.normalize import DIFFERENT
from pgdb.merge.summary import Summary
from pgdb.overlay.breakpoint_operations import ListTrace
from pgdb.ranks import RankSet
from pgdb.records import PLACEHOLDER, Record, Variables, Various, parse_number

RANKS_AT_ONCE = 1000
"""Most ranks of one request: so few that each answer comes by itself, and none is summed up."""
CELLS_AT_ONCE = 2000


class TraceValue(msgspec.Struct, frozen=True):
    """The value of some ranks in one cell."""

    ranks: RankSet
    text: str = ""
    """The value: a number with all its digits, or GDB's text. Beside a summary ``…`` stands for
    what differs."""
    summary: Summary | None = None
    """The summary of the values, where there are too many different ones; that of the first number
    that differs, if the value has several."""


class TraceRow(msgspec.Struct, frozen=True):
    """The values of one collected hit."""

    number: int
    """The row, from 1 on: the rank's first collected hit, its second …"""
    cells: tuple[tuple[TraceValue, ...], ...]
    """For each expression the different values with their ranks, least rank first."""


class TraceTable(msgspec.Struct, RichText, frozen=True):
    """Rows of a trace over all ranks."""

    number: int
    expressions: tuple[str, ...]
    ranks: RankSet
    """Ranks that have answered."""
    rows: tuple[TraceRow, ...]
    least: int
    """Number of rows of the rank with the fewest."""
    most: int
    full: RankSet = RankSet()
    """Ranks whose trace has no room for more."""
    errors: tuple[EquivalenceClass[Record], ...] = ()
    missing: Missing = msgspec.field(default_factory=Missing)
    request_id: int = 0

    @property
    def answer(self) -> Answer:
        """The failures and missing ranks as an answer."""
        return _without_rows(self.number, self.ranks, self.errors, self.missing)


def _without_rows(
    number: int,
    ranks: RankSet,
    errors: tuple[EquivalenceClass[Record], ...],
    missing: Missing,
) -> Answer:
    asked = ranks | missing.ranks | RankSet.union(each.ranks for each in errors)
    return Answer(f"traces {number}", asked, errors, missing)


async def read_table(
    ask: Ask,
    number: int,
    expressions: Sequence[str],
    ranks: RankSet,
    *,
    begin: int | None,
    count: int,
) -> TraceTable:
    """Ask *ranks* for *count* rows from row *begin* on (from 0), or for the last that all have.

    Where a rank has none, as one that a condition leaves out, they are the last of any rank.
    """
    command = f"traces {number}"
    counted = await ask(command, ListTrace(number=number), ranks)
    least, most = _totals(counted)
    if begin is None:
        begin = max(0, (least or most) - count)
    there = RankSet.union(each.ranks for each in counted.classes if not each.is_error)
    rows: tuple[TraceRow, ...] = ()
    errors, missing = counted.errors, counted.missing
    if count and there and begin < most:
        # Rows that ranks collect meanwhile are not among those that were counted.
        count = min(count, most - begin)
        listed = await ask(command, ListTrace(number=number, begin=begin, count=count), there)
        rows = rows_of(listed, len(expressions))
        errors, missing = (*errors, *listed.errors), missing | listed.missing
    return TraceTable(
        number=number,
        expressions=tuple(expressions),
        ranks=there,
        rows=rows,
        least=least,
        most=most,
        full=_full(counted),
        errors=errors,
        missing=missing,
        request_id=counted.request_id,
    )


def rows_of(answer: Answer, width: int) -> tuple[TraceRow, ...]:
    """Return the rows in an answer to :class:`ListTrace`, for a trace of *width* expressions."""
    cells: dict[tuple[int, int], dict[str, RankSet]] = {}
    summaries: dict[tuple[int, int], list[TraceValue]] = {}
    for each in answer.classes:
        columns = iter(each.columns)
        record = each.filled
        template = record.template if isinstance(record, Various) else record
        if not isinstance(template, Variables):
            continue
        for item in template.items:
            text, summary = item.value, None
            if isinstance(record, Various):
                text, summary = _summed_up(text, islice(columns, text.count(PLACEHOLDER)))
            row, dot, column = item.name.partition(".")
            if not dot:
                continue
            place = int(row), int(column)
            if summary is not None:
                summaries.setdefault(place, []).append(TraceValue(each.ranks, text, summary))
                continue
            found = cells.setdefault(place, {})
            found[text] = found.get(text, RankSet()) | each.ranks
    numbers = sorted({row for row, _ in (*cells, *summaries)})
    return tuple(
        TraceRow(
            number=row + 1,
            cells=tuple(
                tuple(
                    sorted(
                        (
                            *(
                                TraceValue(ranks, text)
                                for text, ranks in cells.get((row, column), {}).items()
                            ),
                            *summaries.get((row, column), ()),
                        ),
                        key=lambda value: value.ranks.first,
                    )
                )
                for column in range(width)
            ),
        )
        for row in numbers
    )


def _summed_up(text: str, columns: Iterable[Summary]) -> tuple[str, Summary | None]:
    """Return the text of a template with its equal numbers, and the summary of the first others.

    ``…`` stands for what differs. Without a summary all ranks have the text.
    """
    before, *parts = text.split(PLACEHOLDER)
    filled = [before]
    different: list[Summary] = []
    for summary, part in zip(columns, parts, strict=True):
        only = _only_number(summary)
        if not only:
            different.append(summary)
        filled += [only or DIFFERENT, part]
    numbers = (each for each in different if each.low is not None)
    return "".join(filled), next(numbers, different[0] if different else None)


def _only_number(summary: Summary) -> str:
    """Return the number that all ranks of a summary have, or nothing."""
    strange = summary.nan or summary.above or summary.below or summary.others
    if strange or summary.is_rounded or summary.low is None or summary.low != summary.high:
        return ""
    return repr(summary.low)


def _totals(answer: Answer) -> tuple[int, int]:
    """Return the least and the greatest number of rows."""
    found: list[int] = []
    for each in answer.classes:
        record = each.filled
        if isinstance(record, Variables):
            found.append(int(record.items[0].value))
        elif isinstance(record, Various) and each.columns:
            ends = each.columns[0].low, each.columns[0].high
            found += [int(end) for end in ends if end is not None]
    return (min(found), max(found)) if found else (0, 0)


def _full(answer: Answer) -> RankSet:
    full = RankSet()
    for each in answer.classes:
        record = each.filled
        template = record.template if isinstance(record, Various) else record
        if isinstance(template, Variables) and any(item.name == "full" for item in template.items):
            full = full | each.ranks
    return full


class TraceData(msgspec.Struct, frozen=True):
    """All values of a trace, rank by rank."""

    number: int
    expressions: tuple[str, ...]
    by_rank: Mapping[int, tuple[tuple[int | float | str, ...], ...]]
    """The rows of each rank; a row has a value for each expression."""
    errors: tuple[EquivalenceClass[Record], ...] = ()
    missing: Missing = msgspec.field(default_factory=Missing)

    @property
    def answer(self) -> Answer:
        """The failures and missing ranks as an answer."""
        return _without_rows(self.number, RankSet(self.by_rank), self.errors, self.missing)

    def csv(self) -> str:
        """Return a line ``rank,row,…`` with the values of each row; rows count from 1."""
        text = io.StringIO()
        lines = csv.writer(text)
        lines.writerow(["rank", "row", *self.expressions])
        for rank, rows in self.by_rank.items():
            lines.writerows((rank, number, *row) for number, row in enumerate(rows, start=1))
        return text.getvalue()

    def to_pandas(self) -> Any:
        """Return a DataFrame: a column for each expression, indexed by ``rank`` and ``row``.

        :raises CommandError: if pandas is not installed.
        """
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            raise CommandError(
                "a DataFrame needs the package pandas, which is not installed; 'pip install "
                "pandas', or use csv()"
            ) from None
        places = [
            (rank, number)
            for rank, rows in self.by_rank.items()
            for number in range(1, len(rows) + 1)
        ]
        index = pandas.MultiIndex.from_tuples(places, names=["rank", "row"])
        rows = [row for rows in self.by_rank.values() for row in rows]
        return pandas.DataFrame(rows, index=index, columns=list(self.expressions))


async def read_data(ask: Ask, number: int, expressions: Sequence[str], ranks: RankSet) -> TraceData:
    """Ask *ranks* for all values of a trace."""
    counted = await ask(f"traces {number}", ListTrace(number=number), ranks)
    _, most = _totals(counted)
    there = RankSet.union(each.ranks for each in counted.classes if not each.is_error)
    width = len(expressions)
    step = max(1, CELLS_AT_ONCE // width)
    found: dict[int, list[list[int | float | str]]] = {rank: [] for rank in there}
    errors: Merger[Record] = Merger()
    errors.add_classes(counted.errors)
    missing = counted.missing
    for some in _parts(there):
        for begin in range(0, most, step):
            operation = ListTrace(number=number, begin=begin, count=min(step, most - begin))
            answer = await ask(f"traces {number}", operation, some)
            missing = missing | answer.missing
            errors.add_classes(answer.errors)
            for each in answer.classes:
                if isinstance(each.filled, Variables):
                    _put(found, each.ranks, each.filled, width)
    return TraceData(
        number=number,
        expressions=tuple(expressions),
        by_rank={rank: tuple(map(tuple, rows)) for rank, rows in found.items()},
        errors=errors.classes,
        missing=missing,
    )


def _parts(ranks: RankSet) -> list[RankSet]:
    listed = list(ranks)
    starts = range(0, len(listed), RANKS_AT_ONCE)
    return [RankSet(listed[start : start + RANKS_AT_ONCE]) for start in starts]


def _put(
    found: dict[int, list[list[int | float | str]]], ranks: RankSet, record: Variables, width: int
) -> None:
    """Append the rows of a record to those of each of its ranks.

    A rank that runs can have had no row for a while, and then further ones: those have a gap before
    them, and are left out.
    """
    rows: dict[int, list[Any]] = {}
    for item in record.items:
        row, dot, column = item.name.partition(".")
        if dot:
            number = parse_number(item.value)
            rows.setdefault(int(row), [""] * width)[int(column)] = (
                item.value if number is None else number
            )
    first = min(rows, default=0)
    ordered = [rows[row] for row in sorted(rows)]
    for rank in ranks:
        if len(found[rank]) == first:
            found[rank] += ordered
