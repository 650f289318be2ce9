"""``info display`` of many ranks as one table."""

from __future__ import annotations

from pgdb.frontend.analysis.text_parts import Said
from pgdb.frontend.show.text.display_table import display_table
from pgdb.frontend.show.text.layout import Layout
from pgdb.ranks import RankSet

HEADING = "Auto-display expressions now in effect:\nNum Enb Expression\n"
NONE = "There are no auto-display expressions now."


def said(ranks: str, *rows: str) -> Said:
    return Said(RankSet.parse(ranks), HEADING + "\n".join(rows) if rows else NONE)


def test_a_row_has_the_ranks_that_show_it() -> None:
    lines = display_table(
        [said("0-1", "2:   y  k", "4:   n  n"), said("2", "1:   y  x", "4:   n  n")], Layout()
    )
    assert lines == [
        "[0-2]",
        *HEADING.rstrip().split("\n"),
        "1:   y  x  [2]",
        "2:   y  k  [0-1]",
        "4:   n  n",
    ]


def test_ranks_without_a_display_are_in_no_row() -> None:
    lines = display_table([said("0"), said("1-2", "1:   y  a", "  b")], Layout())
    assert lines is not None
    assert lines[-2:] == ["1:   y  a", "  b  [1-2]"]


def test_other_texts_are_no_lists_of_displays() -> None:
    lists = [said("0", "1:   y  a"), said("1")]
    assert display_table([*lists, Said(RankSet([2]), "1: a = 3")], Layout()) is None
    assert display_table(lists[:1], Layout()) is None
    assert display_table([said("0"), said("1")], Layout()) is None
