"""The rows of traces that a user interface has shown."""

from __future__ import annotations

from pgdb.frontend.commands.traced_rows import TracedRows
from pgdb.ranks import RankSet


def ranks(text: str) -> RankSet:
    return RankSet.parse(text)


def test_rows_of_ranks_that_ran_alone_count_for_these() -> None:
    rows = TracedRows()
    assert rows.shown(1, ranks("0-3")) == (0, 0)
    rows.note(1, ranks("0"), 10, 10)
    assert rows.shown(1, ranks("0")) == (10, 10)
    assert rows.shown(1, ranks("1")) == (0, 0)
    assert rows.shown(1, ranks("0-1")) == (0, 0)
    assert rows.shown(2, ranks("0")) == (0, 0)
    rows.note(1, ranks("1-3"), 4, 6)
    assert rows.shown(1, ranks("0-3")) == (4, 6)
    rows.note(1, ranks("0-3"), 12, 12)
    assert rows.shown(1, ranks("0-3")) == rows.shown(1, ranks("2")) == (12, 12)


def test_ranks_with_a_new_gdb_have_no_shown_rows() -> None:
    rows = TracedRows()
    rows.note(1, ranks("0-3"), 5, 5)
    rows.forget(ranks("2"))
    assert rows.shown(1, ranks("0-1,3")) == (5, 5)
    assert rows.shown(1, ranks("0-3")) == (0, 0)
    rows.clear()
    assert rows.shown(1, ranks("0")) == (0, 0)
