"""Comparisons and checks as text."""

from __future__ import annotations

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.comparing import compare
from pgdb.frontend.show.text import comparison_text
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Value
from tests.support.answers import answer

LONG = ", ".join(str(number) for number in range(200))


def test_a_changed_array_is_cut_to_the_width() -> None:
    before, after = (f"{{{number}, {LONG}}}" for number in ("{1}", "2"))
    found = compare(answer(("0", before)), answer(("0", after)))
    text = comparison_text.comparison(found, "u", before="then", after="now", width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert " -> " in text
    found = compare(answer(("0", "13"), ("1-9", "2")), answer(("0", "0.33333333333"), ("1-9", "2")))
    assert comparison_text.comparison(
        found, "u", before="then", after="now", width=50
    ).splitlines() == [
        "u, then -> now: 1 of 10 ranks differs",
        "[1-9] equal",
        "[0]   13 -> 0.33333333333",
        "        (by 12.7, relative 0.974)",
    ]


def test_text_by_rank() -> None:
    found = compare(
        answer(("0-31", "3.5"), command="print x"),
        answer(("0-6,9-31", "3.5"), ("7", "nan(0x8)"), ("8", "4")),
    )
    assert comparison_text.comparison(found, "x", before="then", after="now") == (
        "x, then -> now: 2 of 32 ranks differ, by up to 0.5 (relative 0.125)\n"
        "[0-6,9-31] equal\n"
        "[7]        3.5 -> nan(0x8)\n"
        "[8]        3.5 -> 4  (by 0.5, relative 0.125)"
    )
    same = compare(answer(("0-31", "3.5")), answer(("0-31", "3.5")))
    assert comparison_text.comparison(same, "x", before="then", after="now") == (
        "x, then -> now: equal on [0-31]"
    )


def test_text_of_many_differences_is_folded_and_says_so() -> None:
    found = compare(
        answer(("0-99", "0")), answer(*((str(rank), str(rank + 1)) for rank in range(100)))
    )
    text = comparison_text.comparison(found, "x", before="then", after="now")
    assert "100 of 100 ranks differ, by up to 100 (relative 1)" in text
    assert "(90 more classes with 90 ranks; --all shows them)" in text
    assert len(text.splitlines()) == 12
    whole = comparison_text.comparison(found, "x", before="then", after="now", whole=True)
    assert len(whole.splitlines()) == 101


def test_text_by_value() -> None:
    found = compare(answer(("0-2", "1"), ("3", "5")), answer(("4-7", "1")), by="value")
    assert comparison_text.comparison(found, "x", before="[0-3]", after="[4-7]") == (
        "x, [0-3] with [4-7]: 1 value on one side only\n"
        "[0-2] and [4-7] on both sides\n"
        "[3]             only [0-3]: 5"
    )


def test_strings_that_differ_late_are_shown_from_there_on() -> None:
    """GDB prints the first 200 characters, which are equal."""

    def said(ranks: str, tail: str) -> Answer:
        whole = f'"{"ab" * 200}{tail}"'
        record = Value(text=f'"{"ab" * 100}"...', whole=whole, digest=tail)
        one = EquivalenceClass[Record](ranks=RankSet.parse(ranks), record=record)
        return Answer(command="print s", ranks=one.ranks, classes=(one,))

    found = compare(said("0", "good"), said("1-2", "bad"), by="value")
    text = comparison_text.comparison(found, "s", before="[0]", after="[1-2]")
    assert text == (
        "s, [0] with [1-2]: 2 values on one side only\n"
        '[0]   only [0]: …ababababababababababgood"\n'
        '[1-2] only [1-2]: …ababababababababababbad"'
    )
