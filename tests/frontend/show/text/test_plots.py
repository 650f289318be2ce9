"""Numbers in character cells: positions and widths."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.frontend.show.text import plots
from pgdb.ranks import RankSet

NAN, INF = float("nan"), float("inf")


def test_bars_stand_by_rank() -> None:
    assert plots.bars([0.0, 1.5, 3.0, NAN], [0, 1, 2, 7], height=3).splitlines() == [
        "3 |                ███████",
        "  |        ▅▅▅▅▅▅▅ ███████",
        "0 |▁▁▁▁▁▁▁ ███████ ███████ NNNNNNN",
        "  +--------------------------------",
        "   0       1       2       7",
        "   rank",
    ]


def test_bars_that_share_a_cell_show_the_spread() -> None:
    values = numpy.tile([1.0, 8.0], 500)
    lines = plots.bars(values, range(1000), width=40, height=4).splitlines()
    assert set(lines[0].partition("|")[2]) == {"░"}
    assert set(lines[3].partition("|")[2]) == {"▁"}
    values[777] = INF
    values[10] = -INF
    drawn = plots.bars(values, range(1000), width=40, height=4)
    assert drawn.splitlines()[0].count("^") == drawn.splitlines()[3].count("v") == 1


def test_equal_and_strange_numbers_are_drawn_too() -> None:
    assert "5 |▁" in plots.bars([5, 5], [0, 1])
    assert plots.bars([NAN], [3]).count("N") == plots.MOST_BARS_WIDTH - 1


def test_histogram_counts_everything() -> None:
    drawn = plots.histogram([0, 0, 1, 10, NAN, INF, -INF], range(7), bins=2)
    assert [line.split("|")[0].strip() for line in drawn.splitlines()] == [
        "0 .. 5",
        "5 .. 10",
        "NaN",
        "inf",
        "-inf",
    ]
    assert drawn.splitlines()[0].endswith("[0-2]")
    assert drawn.splitlines()[1].endswith("[3]")
    assert drawn.splitlines()[2].endswith("[4]")
    assert plots.histogram([2.5, 2.5]).startswith("2.5 | 2 █")
    assert plots.histogram([]) == ""


def test_heat_map() -> None:
    matrix = numpy.arange(12.0).reshape(3, 4)
    matrix[1, 1] = NAN
    missing = numpy.zeros((3, 4), bool)
    missing[2, 3] = True
    assert plots.heat(matrix, missing=missing).splitlines() == [
        "     0 1 2 3",
        "  0 |....::--|",
        "  1 |==NN**##|",
        "  2 |%%@@@@  |",
        "rows: first index, columns: second index",
        ". 0  to  @ 10  (.:-=+*#%@)  N NaN  blank: missing",
    ]


def test_heat_map_keeps_the_extremes() -> None:
    matrix = numpy.zeros((200, 1000))
    matrix[137, 531] = 1
    drawn = plots.heat(matrix)
    assert drawn.count("@") == 3  # the cell, and twice in the legend
    assert "a cell stands for 5 x 14 elements" in drawn
    assert plots.heat(matrix, scale=(0, 100)).count("@") == 2


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), min_size=1, max_size=300),
    st.integers(min_value=72, max_value=120),
)
def test_everything_fits(values: list[float], width: int) -> None:
    for drawn in (
        plots.bars(values, range(len(values)), width=width),
        plots.histogram(values, range(len(values)), width=width),
        plots.heat(numpy.array([values]), width=width),
    ):
        for line in drawn.splitlines():
            assert len(line) <= width or line.startswith((". ", "rows")), line


def test_tables() -> None:
    assert plots.table(numpy.array([[1, 20], [300, 4]])) == "  1  20\n300   4"
    assert plots.table([1.5, 2], numpy.array([False, True])) == "1.5   ."
    assert plots.table(numpy.zeros((50, 2))) is None
    assert plots.table(numpy.zeros((2, 12)) + 1.23456e-100, width=60) is None
    assert plots.table(numpy.zeros((2, 2, 2))) is None


@pytest.mark.parametrize(
    ("ranks", "text"),
    [("0-3,8", "[0-3,8]"), (",".join(map(str, range(0, 60, 7))), "[0-56/7]")],
)
def test_few(ranks: str, text: str) -> None:
    assert plots.few(RankSet.parse(ranks)) == text
    assert len(plots.few(RankSet(n * n for n in range(100)))) < 30
