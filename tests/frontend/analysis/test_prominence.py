"""The order of places: the prominence of differences between ranks."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.part_differences import Part
from pgdb.frontend.analysis.prominence import (
    Prominence,
    has_not_finite,
    most_prominent_changes_first,
    most_prominent_first,
    rate_summary,
    rate_texts,
)
from pgdb.merge.totals import summarize
from pgdb.ranks import RankSet


@pytest.mark.parametrize(
    "text",
    [
        "nan(0x8000000000000)",
        "-nan(0xfffffffffffff)",
        "nan(\ufffc)",
        "inf",
        "-inf",
        "{1, inf, 2}",
        "{x = {0, nan(…)}, y = 1}",
        "(1, nan(0x400000))",
        "1 + infi",
        "inf <repeats 20 times>",
    ],
)
def test_a_nan_or_an_infinity_inside_a_value(text: str) -> None:
    assert has_not_finite(text)


@pytest.mark.parametrize(
    "text",
    [
        "1.5",
        '"inf"',
        '{name = "a nan(0x1)", id = 1}',
        "{inf = 1, nan = 2}",
        "<nan(double)>",
        "info",
        "{void (int)} 0x5555 <inf(int)>",
        "nano",
        "0x1f <x.inf>",
        "'n', \"an\"",
    ],
)
def test_names_and_strings_are_no_numbers(text: str) -> None:
    assert not has_not_finite(text)


def rate(*texts: tuple[str, str]) -> Prominence:
    return rate_texts([(RankSet.parse(ranks), text) for ranks, text in texts])[0]


def test_kinds_of_differences() -> None:
    assert rate(("0-6", "1"), ("7", "inf")) is Prominence.NOT_FINITE
    assert rate(("0-3", "1"), ("4-7", "inf")) is Prominence.NOT_FINITE
    # Where most ranks have it, the NaN does not mark the few.
    assert rate(("0-6", "inf"), ("7", "1")) is Prominence.ONE_RANK
    assert rate(("0-6", "1"), ("7", "2")) is Prominence.ONE_RANK
    assert rate(("0-6", "RED"), ("7", "BLUE")) is Prominence.ONE_RANK
    assert rate(("0-7", "1"), ("8-9", "2")) is Prominence.MINORITY
    assert rate(("0-7", "1"), ("8", "2"), ("9", "3")) is Prominence.MINORITY
    assert rate(("0-3", "1"), ("4-7", "2")) is Prominence.NUMBERS
    assert rate(("0", "1"), ("1", "2")) is Prominence.NUMBERS
    assert rate(("0-3", "RED"), ("4-7", "BLUE")) is Prominence.REST
    assert rate(("0-3", "RED")) is Prominence.EQUAL


def test_kinds_of_summaries() -> None:
    def of(texts: list[str]) -> Prominence:
        summary = summarize([(RankSet([rank]), text) for rank, text in enumerate(texts)])
        return rate_summary(summary, len(texts))[0]

    assert of(["1"] * 9 + ["nan"]) is Prominence.NOT_FINITE
    assert of(["1"] * 9 + ["2"]) is Prominence.ONE_RANK
    assert of(["2"] * 9 + ["1"]) is Prominence.ONE_RANK
    assert of(["1"] * 16 + ["2"] * 2) is Prominence.MINORITY
    assert of([str(rank) for rank in range(9)]) is Prominence.NUMBERS
    assert of(['"a"'] * 9) is Prominence.REST
    assert of(["1"] * 9) is Prominence.EQUAL


def test_the_order_is_stable_and_few_ranks_with_a_nan_come_first() -> None:
    places = {
        "a": [("0", "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("4", "5")],
        "b": [("0-3", "1"), ("4", "2")],
        "c": [("0-2", "1"), ("3-4", "inf")],
        "d": [("0-3", "1"), ("4", "inf")],
        "e": [("0", "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("4", "6")],
        "f": [("1-4", "1"), ("0", "2")],
    }
    rated = {
        name: rate_texts([(RankSet.parse(ranks), text) for ranks, text in texts])
        for name, texts in places.items()
    }
    assert "".join(most_prominent_first(places, rated.__getitem__)) == "dcbfae"


def test_differences_of_two_sides_in_order() -> None:
    parts = [
        Part(".a", "1", "1.1", 0.1, 0.09),
        Part(".b", '"x"', '"y"'),
        Part(".c", "inf", "inf", 0.0, 0.0),
        Part(".d", "1", "3", 2.0, 0.67),
        Part(".e", "{1, nan(0x8000000000000)}", "{1, 2}"),
    ]
    assert "".join(each.path for each in most_prominent_changes_first(parts)) == ".e.b.d.a.c"
