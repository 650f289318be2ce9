"""Answers of ranks about a trace, as tables; the ranks are played."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from pgdb.errors import CommandError
from pgdb.frontend.analysis import trace_tables
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.trace_tables import TraceValue, read_data, read_table
from pgdb.frontend.show.text.trace_text import table_text, without_rows
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.overlay.breakpoint_operations import ListTrace
from pgdb.overlay.messages import AnyOperation
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Variable, Variables

Rows = Sequence[Sequence[str]]
NONE = Failure(message="there is no trace 1 on this rank")


class Ranks:
    """Ranks that have collected rows; they answer as aggregators merge it."""

    def __init__(self, rows: Mapping[int, Rows | Failure], full: RankSet = RankSet()) -> None:
        self.rows = rows
        self.full = full
        self.asked: list[ListTrace] = []

    async def __call__(self, command: str, operation: AnyOperation, ranks: RankSet) -> Answer:
        assert isinstance(operation, ListTrace)
        self.asked.append(operation)
        merger: Merger[Record] = Merger()
        for rank in ranks:
            if rank in self.rows:
                merger.add(RankSet([rank]), self._record(rank, operation))
        missing = Missing(lost=ranks - RankSet(self.rows))
        return Answer(command, ranks, merger.classes, missing)

    def _record(self, rank: int, operation: ListTrace) -> Record:
        rows = self.rows[rank]
        if isinstance(rows, Failure):
            return rows
        items = [Variable("rows", str(len(rows)))]
        items += [Variable("full", "1")] if rank in self.full else []
        end = operation.begin + operation.count
        for row, values in enumerate(rows[operation.begin : end], start=operation.begin):
            items += [Variable(f"{row}.{column}", value) for column, value in enumerate(values)]
        return Variables(tuple(items))


def table(ranks: Ranks, asked: str, begin: int | None = None, count: int = 20) -> str:
    found = asyncio.run(
        read_table(ranks, 1, ("i", "u"), RankSet.parse(asked), begin=begin, count=count)
    )
    return table_text(found)


def test_equal_values_are_one_and_the_rank_that_differs_stands_out() -> None:
    rows: Rows = [("0", "0.5"), ("1", "0.25")]
    other: Rows = [("0", "0.5"), ("1", "nan")]
    assert table(Ranks({0: rows, 1: rows, 2: other}), "0-2") == (
        "trace 1: 2 rows on [0-2]\nrow  i  u\n  1  0  0.5\n  2  1  [0-1] 0.25, [2] nan"
    )


def test_many_different_numbers_are_their_range_and_texts_are_counted() -> None:
    ranks = Ranks({rank: [(str(rank), f'"{rank}"')] for rank in range(6)})
    assert table(ranks, "0-5").splitlines()[2] == (
        '  1  0 [0] … 5 [5]  [0] "0", [1] "1", [2] "2", [3-5] 3 other values'
    )


def test_the_last_rows_are_those_that_all_ranks_have() -> None:
    ranks = Ranks({0: [("0", "1")] * 5, 1: [("0", "1")] * 9}, full=RankSet([1]))
    text = table(ranks, "0-1", count=2)
    assert text.splitlines()[0] == "trace 1: 5 to 9 rows on [0-1]; no room for more on [1]"
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["4", "5"]
    # Rows that only some ranks have are theirs.
    assert table(ranks, "0-1", begin=8, count=2).splitlines()[2:] == ["  9  [1] 0  [1] 1"]


def test_ranks_without_the_trace_and_lost_ones_are_named() -> None:
    text = table(Ranks({0: [("0", "1")], 1: NONE}), "0-2")
    assert text.splitlines()[0] == "trace 1: 1 row on [0]"
    assert "[1] error: there is no trace 1 on this rank" in text
    assert "[2]" in text.splitlines()[-1]


def test_more_ranks_than_are_listed_one_by_one_are_summed_up_in_each_cell() -> None:
    ranks = Ranks({rank: [("7", f"{rank / 4}")] for rank in range(1500)})
    found = asyncio.run(
        read_table(ranks, 1, ("i", "u"), RankSet(range(1500)), begin=None, count=20)
    )
    (row,) = found.rows
    assert row.cells[0] == (TraceValue(RankSet(range(1500)), "7"),)
    (value,) = row.cells[1]
    assert value.summary is not None
    assert (value.summary.low, value.summary.high) == (0.0, 1499 / 4)
    assert "0 [0] … 374.75 [1499]" in table_text(found)


def test_different_numbers_of_rows_of_very_many_ranks() -> None:
    ranks = Ranks({rank: [("7", "1")] * (rank + 1) for rank in range(1200)})
    found = asyncio.run(
        read_table(ranks, 1, ("i", "u"), RankSet(range(1200)), begin=None, count=20)
    )
    assert (found.least, found.most) == (1, 1200)


def test_a_rank_without_rows_counts_among_very_many() -> None:
    ranks = Ranks({rank: [("7", "1")] * rank for rank in range(1200)})
    found = asyncio.run(
        read_table(ranks, 1, ("i", "u"), RankSet(range(1200)), begin=None, count=20)
    )
    assert (found.least, found.most) == (0, 1199)


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("{{x = 1, y = {}}}", "{x = 1, y = …}", "[0-1499] {x = 1, y = …}: 0 [0] … 1499 [1499]"),
        ('{{s = "a{0}", y = {0}}}', "{s = …, y = …}", "{s = …, y = …}: 0 [0] … 1499 [1499]"),
        ("{} units", "… units", "[0-1499] 0 [0] … 1499 [1499]"),
    ],
)
def test_equal_numbers_of_values_that_differ_are_kept(value: str, text: str, shown: str) -> None:
    ranks = Ranks({rank: [("7", value.format(rank))] for rank in range(1500)})
    found = asyncio.run(
        read_table(ranks, 1, ("i", "u"), RankSet(range(1500)), begin=None, count=20)
    )
    assert [each.text for each in found.rows[0].cells[1]] == [text]
    assert shown in table_text(found)


def test_all_values_rank_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_tables, "CELLS_AT_ONCE", 4)
    monkeypatch.setattr(trace_tables, "RANKS_AT_ONCE", 2)
    ranks = Ranks({rank: [(str(i), f"{rank}.5") for i in range(5)] for rank in range(3)})
    data = asyncio.run(read_data(ranks, 1, ("i", "u"), RankSet(range(3))))
    assert data.by_rank == {rank: tuple((i, rank + 0.5) for i in range(5)) for rank in range(3)}
    lines = data.csv().splitlines()
    assert lines[:2] == ["rank,row,i,u", "0,1,0,0.5"]
    assert len(lines) == 16


class Running(Ranks):
    """Ranks of which rank 1 collects rows between two requests."""

    def _record(self, rank: int, operation: ListTrace) -> Record:
        record = super()._record(rank, operation)
        if rank == 1:
            rows = [*self.rows[1], (str(len(self.rows[1])), "0")]  # type: ignore[misc]
            self.rows = {**self.rows, 1: rows}
        return record


def test_rows_behind_a_gap_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 has 2 rows when rows 0 and 1 are read, and more when the next are."""
    monkeypatch.setattr(trace_tables, "CELLS_AT_ONCE", 8)
    many: Rows = [(str(i), "0") for i in range(20)]
    data = asyncio.run(
        read_data(Running({0: many, 1: [("0", "0")]}), 1, ("i", "u"), RankSet([0, 1]))
    )
    assert len(data.by_rank[0]) == 20
    assert data.by_rank[1] == ((0, 0), (1, 0))


def test_a_table_has_no_row_that_came_behind_the_count() -> None:
    rows: Rows = [("0", "0"), ("1", "0")]
    found = asyncio.run(
        read_table(Running({1: rows}), 1, ("i", "u"), RankSet([1]), begin=0, count=20)
    )
    assert (found.least, found.most, len(found.rows)) == (2, 2, 2)


class FailingLater(Ranks):
    """Ranks of which rank 1 loses its trace behind so many requests."""

    def __init__(self, requests: int) -> None:
        rows: Rows = [("0", "1"), ("1", "2"), ("2", "3")]
        super().__init__({0: rows, 1: rows})
        self._requests = requests

    def _record(self, rank: int, operation: ListTrace) -> Record:
        fails = rank == 1 and len(self.asked) > self._requests
        return NONE if fails else super()._record(rank, operation)


@pytest.mark.parametrize(("requests", "rows"), [(1, 0), (2, 2)])
def test_ranks_that_fail_later_are_named(
    monkeypatch: pytest.MonkeyPatch, requests: int, rows: int
) -> None:
    monkeypatch.setattr(trace_tables, "CELLS_AT_ONCE", 4)
    asked = RankSet([0, 1])
    data = asyncio.run(read_data(FailingLater(requests), 1, ("i", "u"), asked))
    assert {rank: len(values) for rank, values in data.by_rank.items()} == {0: 3, 1: rows}
    assert without_rows(data.answer) == ["[1] error: there is no trace 1 on this rank"]


def test_a_table_names_ranks_that_fail_later() -> None:
    assert "\n[1] error: there is no trace 1 on this rank" in table(FailingLater(1), "0-1")


def test_a_data_frame_has_a_row_for_each_rank_and_hit() -> None:
    pytest.importorskip("pandas", reason="pandas has no wheel for this Python yet")
    ranks = Ranks({0: [("1", "0.5")], 2: [("1", "0.5"), ("2", "x")]})
    frame = asyncio.run(read_data(ranks, 1, ("i", "u"), RankSet([0, 2]))).to_pandas()
    assert list(frame.columns) == ["i", "u"]
    assert frame.index.names == ["rank", "row"]
    assert frame.loc[(2, 2), "u"] == "x"
    assert len(frame) == 3


def test_without_pandas_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    data = asyncio.run(read_data(Ranks({0: [("1", "2")]}), 1, ("i", "u"), RankSet([0])))

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(CommandError, match="pip install pandas"):
        data.to_pandas()


def test_errors_are_classes() -> None:
    found = asyncio.run(read_table(Ranks({0: NONE}), 1, ("i",), RankSet([0]), begin=None, count=1))
    (error,) = found.errors
    assert isinstance(error, EquivalenceClass)
    assert not found.answer.ok
