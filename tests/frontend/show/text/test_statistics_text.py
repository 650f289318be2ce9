"""Statistics as text: widths, bins, estimates."""

from __future__ import annotations

import re

import numpy
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pgdb.frontend.analysis.histogram import bin_ends
from pgdb.frontend.show.text import statistics_text
from pgdb.frontend.show.text.bars import sparkline
from pgdb.merge.classes import Missing
from pgdb.merge.summary import Summary, empty_bins
from pgdb.merge.totals import Totals, merge, summarize, summarize_array
from pgdb.ranks import RankSet
from pgdb.records import Failure
from tests.support.answers import answer, ranks


def test_statistics_fit_a_terminal() -> None:
    summary = summarize(
        [(RankSet([rank]), str(rank * 1.5e-7)) for rank in range(32)]
        + [(ranks("40-41"), "nan(0x8)"), (ranks("42"), "-inf"), (ranks("43"), "red")]
    )
    error = Failure(message='No symbol "x" in current context.')
    said = answer(("50", error), missing=Missing(running=ranks("51")))
    text = statistics_text.statistics("x", summary, ranks("0-31,40-43"), said)
    assert "min  0 [0]" in text
    assert "max     4.65e-06 [31]" in text
    assert "NaN on [40-41]" in text
    assert text.splitlines()[1].strip().startswith("NaN on [40-41]")
    assert "-infinity on [42]" in text
    assert "no number on [43]" in text
    assert '[50] error: No symbol "x"' in text
    assert "[51] running" in text
    assert max(map(len, text.splitlines())) <= 80


def summed(*numbers: float, bins: int = 8) -> Summary:
    """Return the summary of one number for each rank, with its histogram."""
    pairs = [(RankSet([rank]), f"{number:.15g}") for rank, number in enumerate(numbers)]
    totals = Totals(empty_bins(*bin_ends(summarize(pairs), bins)))
    for members, text in pairs:
        totals.add_text(members, text)
    return totals.summary()


def histogram(summary: Summary, width: int = 0) -> list[tuple[str, int]]:
    """Return the bins in the text of a summary, with their counts."""
    text = statistics_text.statistics("x", summary, RankSet.range(0, 9), answer(), width=width)
    rows = re.findall(r"^  +(\S+(?: … \S+)?) +(\d+)(?: █*)?$", text, re.M)
    return [(label, int(count)) for label, count in rows]


def test_bins_of_integers_are_of_integers() -> None:
    assert histogram(summed(0, 1, 2, 3)) == [("0", 1), ("1", 1), ("2", 1), ("3", 1)]
    assert histogram(summed(*range(9), bins=4)) == [("0 … 2", 3), ("3 … 5", 3), ("6 … 8", 3)]
    assert histogram(summed(*range(10), bins=4)) == [
        ("0 … 2", 3),
        ("3 … 5", 3),
        ("6 … 8", 3),
        ("9", 1),
    ]
    assert histogram(summed(*range(50), bins=49))[0] == ("0 … 1", 2)
    # Whole numbers among fractions are no integers.
    halves = summed(*(rank / 2 for rank in range(9)), bins=2)
    assert histogram(halves) == [("0 … 2", 4), ("2 … 4", 5)]


def test_ends_of_bins_are_distinguishable() -> None:
    near = summed(*(100 + rank * 1e-4 for rank in range(8)), bins=4)
    assert [label for label, _ in histogram(near)] == [
        "100 … 100.0002",
        "100.0002 … 100.0003",
        "100.0003 … 100.0005",
        "100.0005 … 100.0007",
    ]


@pytest.mark.parametrize("width", [30, 50, 80])
def test_statistics_are_as_wide_as_the_terminal(width: int) -> None:
    numbers = summed(*(rank * 1.5e-7 for rank in range(64)))
    text = statistics_text.statistics("x", numbers, ranks("0-63"), answer(), width=width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert any("█" in line for line in lines)
    assert "std dev" in text


def test_an_estimate_is_marked_as_one() -> None:
    few, many = (summed(*range(count)) for count in (100, 500))
    assert "  100 different" in statistics_text.statistics("x", few, ranks("0"), answer())
    assert re.search(
        r" about \d+ different", statistics_text.statistics("x", many, ranks("0"), answer())
    )


EXTREMES = (0.0, 5e-324, -5e-324, 1e308, -1e308, 2.0**53, 1.5)
numbers = (
    st.integers(-(2**70), 2**70)
    | st.sampled_from([2**64 - 1, 2**64 - 2, 2**63, -(2**63), 2**53, 2**53 + 1])
    | st.sampled_from(EXTREMES)
    | st.floats(allow_nan=False, allow_infinity=False)
)


@given(st.lists(numbers, min_size=1, max_size=6), st.integers(1, 40))
@example([2**64 - 2, 2**64 - 1], 40)
@example([0.0, 5e-324], 40)
def test_any_numbers_have_statistics_and_bars(found: list[int | float], width: int) -> None:
    pairs = [(RankSet([rank]), repr(number)) for rank, number in enumerate(found)]
    summary = summarize(pairs)
    count = "1 number\n" if len(found) == 1 else f"{len(found)} numbers\n"
    text = statistics_text.statistics("x", summary, RankSet.range(0, 9), answer())
    assert text.startswith(f"[0-8] x: {count}")
    bars = sparkline(summary, width)
    assert set(bars) <= set("▁▂▃▄▅▆▇█")
    if bars:
        # The least number has the lowest bar, the greatest the highest, unless they share one.
        ends = {"▁", "█"} & set(bars)
        assert len(ends) == 2 if width >= len(found) else ends


def test_numbers_with_more_digits_than_doubles_are_not_called_equal_silently() -> None:
    texts = ("1", "1.00000000000000000011")
    longer = summarize([(RankSet([rank]), text) for rank, text in enumerate(texts)])
    text = statistics_text.statistics("x", longer, RankSet.range(0, 2), answer())
    assert "do not hold all their digits" in text
    short = summarize([(RankSet([0]), "0.1"), (RankSet([1]), "9.9999999999999694e-311")])
    assert not short.is_rounded
    assert summarize([(RankSet([0]), str(2**100 + 1))]).is_rounded
    assert not summarize([(RankSet([0]), str(2**63))]).is_rounded
    assert merge((short, replace(longer, at_low=ranks("3"), at_high=ranks("3")))).is_rounded
    array = numpy.array([1, 1 + numpy.finfo(numpy.longdouble).eps, numpy.nan], numpy.longdouble)
    assert summarize_array(0, array).is_rounded
    assert not summarize_array(0, array[[0, 2]]).is_rounded
