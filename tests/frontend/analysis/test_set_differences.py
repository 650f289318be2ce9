"""Sets of C++ compared by membership."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.assertions import judge_values
from pgdb.frontend.analysis.closeness import Closeness
from pgdb.frontend.analysis.comparing import compare as compare_answers
from pgdb.frontend.analysis.conditions import parse as parse_condition
from pgdb.frontend.analysis.diff import compare
from pgdb.frontend.analysis.part_differences import parts_of
from pgdb.frontend.analysis.values import parse
from pgdb.frontend.analysis.whole_values import key_of
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
        "std::multiset with 3 elements, has element 1 (2 times)",
        "std::multiset with 4 elements, has element 1 (3 times)",
    ]


def test_sets_with_little_in_common_are_shown_whole() -> None:
    one, other = set_of(1, 2), set_of(3, 4, 5)
    assert places(one, other) == [("", [one, other])]
    assert places(set_of(1), set_of(2)) == [("[0]", ["1", "2"])]


def map_of(*pairs: tuple[object, object], kind: str = "unordered_map") -> str:
    items = ", ".join(f"[{key}] = {value}" for key, value in pairs)
    return f"std::{kind} with {len(pairs)} elements = {{{items}}}"


ONE = set_of(1, 2, 3, kind="unordered_set")
OTHER = set_of(3, 1, 2, kind="unordered_set")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ONE, OTHER),
        (set_of(1, 2, 2, kind="unordered_multiset"), set_of(2, 1, 2, kind="unordered_multiset")),
        (set_of(1, 2), set_of(2, 1)),  # an order of the program's own
        (map_of((1, 5), (2, 6)), map_of((2, 6), (1, 5))),
        (
            map_of((1, 5), (1, 6), kind="unordered_multimap"),
            map_of((1, 6), (1, 5), kind="unordered_multimap"),
        ),
        (f"{{s = {ONE}, n = 1}}", f"{{s = {OTHER}, n = 1}}"),
        (set_of(ONE, 7, kind="unordered_set"), set_of(7, OTHER, kind="unordered_set")),
        (map_of(("1", ONE), ("2", OTHER)), map_of(("2", ONE), ("1", OTHER))),
        (map_of(("1", ONE), kind="map"), map_of(("1", OTHER), kind="map")),
    ],
)
def test_the_order_of_unordered_elements_is_no_difference(one: str, other: str) -> None:
    assert places(one, other) == []
    assert key_of(Value(text=one)) == key_of(Value(text=other)) or "unordered" not in one
    cut = Value(text=f"{one}...", whole=one, digest="0x1")
    assert key_of(cut) == key_of(Value(text=other)) or "unordered" not in one


@pytest.mark.parametrize(
    ("one", "other", "path"),
    [
        (map_of((1, 5), (2, 6)), map_of((2, 7), (1, 5)), "[2]"),
        (set_of(*range(9), kind="unordered_set"), set_of(*range(1, 10), kind="unordered_set"), ""),
        (ONE, set_of(4, 5, 6, kind="unordered_set"), ""),
    ],
)
def test_other_elements_are_differences(one: str, other: str, path: str) -> None:
    assert [place for place, _ in places(one, other)] == [path]
    assert key_of(Value(text=one)) != key_of(Value(text=other))


def test_values_that_differ_in_order_pass_as_the_same() -> None:
    classes = tuple(
        EquivalenceClass[Record](RankSet(ranks), Value(text=text))
        for ranks, text in (((0, 3), ONE), ((1,), OTHER), ((2,), ONE.replace("= 3", "= 4")))
    )
    answer = Answer(command="print s", ranks=RankSet(range(4)), classes=classes)
    found = judge_values(parse_condition("s"), answer)
    assert (str(found.passed), str(found.failed)) == ("0-1,3", "2")
    others = replace(answer, classes=classes[:2])
    assert compare_answers(others, others, by="value").same
    sides = [replace(answer, classes=(each,)) for each in classes]
    assert not compare_answers(sides[0], sides[1], by="value").only_before
    assert compare_answers(sides[0], sides[2], by="value").only_before


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
