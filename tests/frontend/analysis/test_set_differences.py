"""Sets of C++ compared by membership."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.closeness import Closeness
from pgdb.frontend.analysis.diff import compare
from pgdb.frontend.analysis.part_differences import parts_of
from pgdb.frontend.analysis.values import parse
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Value


def set_of(*elements: object, kind: str = "set", end: str = "") -> str:
    items = ", ".join(f"[{at}] = {each}" for at, each in enumerate(elements))
    return f"std::{kind} with {len(elements)} elements = {{{items}{end}}}"


def places(*texts: str) -> list[tuple[str, list[str]]]:
    values = [(RankSet([rank]), parse(text)) for rank, text in enumerate(texts)]
    return [(place.path, [text for _, text in place.texts]) for place in compare(values).places]


@pytest.mark.parametrize("kind", ["set", "unordered_set", "multiset", "__debug::set"])
def test_one_element_less_is_one_difference(kind: str) -> None:
    assert places(set_of(*range(9), kind=kind), set_of(*(0, 1, *range(3, 9)), kind=kind)) == [
        (
            "",
            [
                f"std::{kind} with 9 elements, has element 2",
                f"std::{kind} with 8 elements, lacks element 2",
            ],
        )
    ]


def test_each_set_has_the_elements_of_its_own() -> None:
    texts = [f"{{s = {set_of(1, 2, 3, 4, *more)}}}" for more in ((5, 6), (), (5, 7))]
    ((path, found),) = places(*texts)
    assert path == ".s"
    assert found == [
        "std::set with 6 elements, has elements 5, 6, lacks element 7",
        "std::set with 4 elements, lacks elements 5, 6, 7",
        "std::set with 6 elements, has elements 5, 7, lacks element 6",
    ]


def test_copies_in_a_multiset_count() -> None:
    ((_, found),) = places(set_of(1, 1, 2, kind="multiset"), set_of(1, 1, 1, 2, kind="multiset"))
    assert found == [
        "std::multiset with 3 elements, lacks element 1",
        "std::multiset with 4 elements, has element 1",
    ]


def test_sets_with_little_in_common_are_shown_whole() -> None:
    one, other = set_of(1, 2), set_of(3, 4, 5)
    assert places(one, other) == [("", [one, other])]
    assert places(set_of(1), set_of(2)) == [("[0]", ["1", "2"])]


def test_another_order_is_told_by_position() -> None:
    one, other = (set_of(*each, kind="unordered_set") for each in ((1, 2, 3), (3, 2, 1)))
    assert places(one, other) == [("[0]", ["1", "3"]), ("[2]", ["3", "1"])]


def test_a_cut_set_lacks_nothing_for_sure() -> None:
    one, other = set_of(1, 2, 3, 4), set_of(1, 2, 3, end="...")
    assert places(one, other) == [("", [one, other])]


def test_a_tolerance_compares_elements_by_position() -> None:
    one, other = (
        EquivalenceClass[Record](RankSet([0]), Value(set_of(1, 2, 3, last)), ())
        for last in ("4.0", "4.001")
    )
    assert parts_of(one, other, Closeness(0.01, 0.0)) == ()
    (part,) = parts_of(one, other, Closeness(0.0, 0.0))
    assert "has element 4.0" in part.before
