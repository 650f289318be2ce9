"""Summaries of arrays: every element counts, and the bars show the rank that stands out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pgdb.frontend.show.text.bars import bars_title, sparkline
from pgdb.frontend.show.text.layout import Layout
from pgdb.frontend.show.text.summary_text import summary_lines
from pgdb.frontend.show.text.value_text import Said, value_rows
from pgdb.merge.summary import Summary
from pgdb.merge.totals import merge, summarize_array
from pgdb.ranks import RankSet
from pgdb.records import Block, Value

numpy = pytest.importorskip("numpy")


def summed(*arrays: Sequence[float]) -> Summary:
    return merge(summarize_array(rank, numpy.array(values)) for rank, values in enumerate(arrays))


def test_a_run_counts_with_all_its_elements() -> None:
    said = [
        Said(RankSet([rank]), f"{{{rank} <repeats 300 times>, {1000 + rank}, 0.5}}")
        for rank in range(20)
    ]
    rows = value_rows("x", said, Layout())
    total = sum(300 * rank + 1000 + rank for rank in range(20))
    assert f"mean {total / (20 * 301):.6g}" in "\n".join(text for _, text in rows)


def test_a_hot_spot_and_a_cold_spot_stand_out() -> None:
    usual = [0.0, 1.0, 0.5]
    assert sparkline(summed(usual, usual, [0.0, 100.0, 0.5], usual), 32) == "▁▁█▁"
    cold = summed(usual, [-100.0, 1.0, 0.0], usual)
    assert sparkline(cold, 32) == "█▁█"
    assert bars_title(cold) == "min by rank"


def test_nearly_identical_arrays_have_no_bars() -> None:
    assert sparkline(summed([0.0, 1.0], [0.0, 1.0], [0.0, 1.0001], [0.0, 1.0001]), 32) == ""


def test_single_numbers_keep_their_bars() -> None:
    found = summed([1.0], [2.0], [3.0], [8.0])
    assert sparkline(found, 32) == "▁▂▃█"
    assert bars_title(found) == "by rank"


def test_bars_of_arrays_are_named() -> None:
    found = summed([0.0, 1.0], [0.0, 9.0])
    assert summary_lines(found, Layout())[0].endswith("max by rank ▁█")


def test_elements_of_long_text_keep_their_place() -> None:
    """GDB shows an array of characters as text, which has nothing in common here."""
    said = []
    for rank, text in enumerate(
        ("'\\000' <repeats 69999 times>", "'\\000' <repeats 69000 times>...")
    ):
        numbers = numpy.zeros(70_000, "u1")
        numbers[69_000] = rank
        whole = Block(dtype="|u1", shape=numbers.shape, data=numbers.tobytes())
        record = Value(text=text, digest=f"0x{rank}", whole=whole)
        said.append(Said(RankSet([rank]), text, (), record=record))
    rows = [text for _, text in value_rows("x", said, Layout())]
    assert rows[0] == "x = …"
    assert "[69000]" in rows[1]
    assert "x = 0" not in rows
