"""Comparisons of answers."""

from __future__ import annotations

import math

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.analysis.comparing import By, compare
from pgdb.merge.classes import Missing
from pgdb.records import (
    PLACEHOLDER,
    Failure,
    Frame,
    Stack,
    Value,
    Variable,
    Variables,
    Various,
)
from tests.support.answers import answer, ranks

# -- by rank -----------------------------------------------------------------------------------


def test_ranks_that_say_the_same_are_equal_however_they_are_classed() -> None:
    found = compare(answer(("0-3", "1"), ("4-7", "2")), answer(("4-7", "2"), ("0-3", "1")))
    assert found.same
    assert found.equal == found.equal_others == ranks("0-7")


def test_a_difference_has_its_ranks_and_its_size() -> None:
    found = compare(answer(("0-3", "4")), answer(("0,3", "4"), ("1", "3"), ("2", "nan(0x8)")))
    assert not found.same
    assert found.equal == ranks("0,3")
    odd, by_one = found.differences
    assert (odd.ranks, odd.absolute) == (ranks("2"), None)  # no number: the first to be shown
    assert (by_one.ranks, by_one.absolute, by_one.relative) == (ranks("1"), 1.0, 0.25)


def test_the_largest_difference_comes_first() -> None:
    found = compare(answer(("0-2", "100")), answer(("0", "101"), ("1", "900"), ("2", "110")))
    assert [each.ranks.first for each in found.differences] == [1, 2, 0]


@pytest.mark.parametrize(
    ("one", "other", "options", "is_equal"),
    [
        ("1.0", "1.001", {"tolerance": 1e-2}, True),
        ("1.0", "1.001", {"tolerance": 1e-4}, False),
        ("0", "1e-9", {"tolerance": 1e-2}, False),
        ("0", "1e-9", {"absolute_tolerance": 1e-8}, True),
        ("nan(0x8000000000000)", "-nan(0x8000000000000)", {}, True),
        ("nan(0x8000000000000)", "0", {"absolute_tolerance": 1e300}, False),
        ("inf", "1e300", {"tolerance": 1.0}, False),
        ("97 'a'", "98 'b'", {"absolute_tolerance": 1.0}, True),
        ("(int *) 0x5555555592a0", "(int *) 0x7ffe10203040", {}, True),
        ("(int *) 0x5555555592a0", "(int *) 0x0", {}, False),
        ("{1, 2.5, 3}", "{1, 2.6, 3}", {"tolerance": 0.1}, True),
        ("{0 <repeats 20 times>}", "{0 <repeats 19 times>, 1}", {"tolerance": 0.1}, False),
        ('"abc"', '"abd"', {"tolerance": 1.0}, False),
        # A double has no room for these digits, or for numbers of this size.
        ("9007199254740992", "9007199254740993", {}, False),
        ("9007199254740992", "9007199254740993", {"absolute_tolerance": 0.5}, False),
        ("9007199254740992", "9007199254740993", {"absolute_tolerance": 1.0}, True),
        ("9007199254740992", "9007199254740993", {"tolerance": 1e-15}, True),
        ("{id = 18446744073709551614}", "{id = 18446744073709551615}", {}, False),
        ("1.10000000000000000002", "1.100000000000000001", {}, False),
        ("1.10000000000000000002", "1.100000000000000001", {"tolerance": 1e-17}, True),
        ("{ld = 1.10000000000000000002}", "{ld = 1.100000000000000001}", {}, False),
        ("1e-400", "2e-400", {}, False),
        ("1e-400", "2e-400", {"absolute_tolerance": 1e-300}, True),
        ("1e+4000", "2e+4000", {}, False),
        ("1e+4000", "inf", {}, False),
        ("1 + 2i", "1 + 2.5i", {"tolerance": 0.3}, True),
        ("1 + 2i", "1 + 2.5i", {"tolerance": 0.01}, False),
        ("{z = (1,2)}", "{z = (1,2.5)}", {"absolute_tolerance": 0.6}, True),
        ("{z = (1,2)}", "{z = (1,inf)}", {"absolute_tolerance": 0.6}, False),
        ("1 + nan(0x4)i", "1 + nan(0x8)i", {}, True),
        ("{(1,nan(0x4))}", "{(1,nan(0x8))}", {}, True),
    ],
)
def test_what_counts_as_equal(
    one: str, other: str, options: dict[str, float], is_equal: bool
) -> None:
    for before, after in ((one, other), (other, one)):
        found = compare(answer(("0", before)), answer(("0", after)), **options)  # type: ignore[arg-type]
        assert found.same == is_equal
        in_values = compare(
            answer(("0", before)),
            answer(("1", after)),
            by="value",
            **options,  # type: ignore[arg-type]
        )
        # As a value, a NaN is the text that GDB prints.
        assert in_values.same == is_equal or "nan" in one


def test_structures_are_compared_field_by_field() -> None:
    one = '{x = {0, 1, 2}, id = 7, name = 0x5555555592a0 "odd"}'
    other = '{x = {0, 1.5, 2}, id = 7, name = 0x7f55555592a0 "even"}'
    (difference,) = compare(answer(("0-3", one)), answer(("0-3", other))).differences
    number, name = difference.parts
    assert (number.path, number.before, number.after, number.absolute) == (".x[1]", "1", "1.5", 0.5)
    assert (name.path, name.absolute) == (".name", None)
    # A tolerance ignores the number and keeps the name.
    (difference,) = compare(
        answer(("0", one)), answer(("0", other)), absolute_tolerance=0.5
    ).differences
    assert [part.path for part in difference.parts] == [".name"]


def test_neighbouring_elements_that_differ_are_one_place() -> None:
    (difference,) = compare(
        answer(("0", "{0, 0, 0, 0, 5}")), answer(("0", "{0, 1, 2, 3, 5}"))
    ).differences
    (part,) = difference.parts
    assert (part.path, part.absolute, part.relative) == ("[1]@3", 3.0, 1.0)


def test_variables_are_compared_by_name() -> None:
    def locals_are(**values: str) -> Variables:
        items = tuple(Variable(name=name, value=value) for name, value in values.items())
        return Variables(items=items)

    one = locals_are(p="(int *) 0x5555555592a0", n="3", only="1", q="(int *) 0x7ffe10203040")
    other = locals_are(p="(int *) 0x7f55555592a0", n="4", q="(int *) 0x0")
    (difference,) = compare(answer(("0", one)), answer(("0", other))).differences
    assert [(part.path, part.before, part.after) for part in difference.parts] == [
        ("n", "3", "4"),
        ("only", "1", ""),
        ("q", "(int *) 0x7ffe10203040", "(int *) 0x0"),
    ]


def test_variables_with_other_hashes_are_not_equal() -> None:
    one, other = (
        Variables(items=(Variable("v", "{1, 2...}", digest=each),)) for each in ("0x1", "0x2")
    )
    (difference,) = compare(answer(("0", one)), answer(("0", other))).differences
    assert [part.path for part in difference.parts] == ["v"]
    assert compare(answer(("0", one)), answer(("0", one))).same


def test_other_records_are_equal_or_not() -> None:
    def stack(line: int) -> Stack:
        return Stack(frames=(Frame(level=0, function="main", file="a.c", line=line),))

    found = compare(answer(("0-1", stack(3))), answer(("0", stack(3)), ("1", stack(4))))
    assert found.equal == ranks("0")
    (difference,) = found.differences
    assert (difference.ranks, difference.parts) == (ranks("1"), ())


def test_every_rank_is_in_one_set() -> None:
    before = answer(
        ("0-1", "1"), ("2", Failure(message="No symbol")), missing=Missing(running=ranks("3"))
    )
    after = answer(
        ("0,3", "1"),
        ("2", Failure(message="No symbol")),
        ("5", "2"),
        missing=Missing(lost=ranks("1")),
    )
    found = compare(before, after)
    assert not found.same
    assert found.equal == ranks("0")
    left = {(str(each.ranks), each.side): each.why for each in found.left_out}
    assert left == {
        ("2", "both"): "error: No symbol",
        ("1", "after"): "ended, detached or lost",
        ("3", "before"): "running",
        ("5", "before"): "not asked",
    }


def test_an_error_on_one_side_is_a_difference() -> None:
    found = compare(answer(("0", "1")), answer(("0", Failure(message="No symbol"))))
    assert [each.ranks for each in found.differences] == [ranks("0")]


def test_summed_up_values_are_not_taken_for_equal() -> None:
    various = answer(("0-2000", Various(template=Value(text=PLACEHOLDER))))
    found = compare(various, various)
    assert not found.same
    assert found.left_out[0].ranks == ranks("0-2000")


def test_very_many_classes() -> None:
    many = answer(*((str(rank), str(rank)) for rank in range(2000)))
    moved = answer(*((str(rank), str(rank + (rank == 77))) for rank in range(2000)))
    found = compare(many, moved)
    assert found.equal == ranks("0-76,78-1999")
    assert [each.ranks for each in found.differences] == [ranks("77")]


# -- by position and by value ------------------------------------------------------------------


def test_by_position() -> None:
    before = answer(("0", "1"), ("1", "2"), missing=Missing(late=ranks("2")))
    after = answer(("4", "1"), ("6,8", "3"))
    found = compare(before, after, by="position")
    assert (found.equal, found.equal_others) == (ranks("0"), ranks("4"))
    (difference,) = found.differences
    assert (difference.ranks, difference.others) == (ranks("1"), ranks("6"))
    (left,) = found.left_out
    assert (left.ranks, left.side, left.why) == (ranks("2"), "before", "no answer in time")
    with pytest.raises(UsageError, match="cannot be paired"):
        compare(before, answer(("4", "1")), by="position")


def test_by_value() -> None:
    before = answer(("0-5", "1"), ("6", "7"), ("7", Failure(message="No symbol")))
    after = answer(("8-9", "1"), ("10-12", "3"), ("13", "4"))
    found = compare(before, after, by="value")
    assert (found.equal, found.equal_others) == (ranks("0-5"), ranks("8-9"))
    assert [each.ranks for each in found.only_before] == [ranks("6")]
    assert [each.ranks for each in found.only_after] == [ranks("13"), ranks("10-12")]
    assert [(each.ranks, each.side) for each in found.left_out] == [(ranks("7"), "before")]


def test_a_tolerance_must_be_one() -> None:
    for bad in (-1.0, math.nan):
        with pytest.raises(UsageError, match="tolerance"):
            compare(answer(("0", "1")), answer(("0", "1")), tolerance=bad)


@pytest.mark.parametrize("by", ["rank", "position", "value"])
def test_values_that_gdb_cannot_show_are_not_called_equal(by: By) -> None:
    for text, why in (
        ("<optimized out>", "the value is <optimized out>"),
        ("{1, <optimized out>}", "equal but for parts that are <optimized out>"),
    ):
        found = compare(answer(("0-1", text)), answer(("0-1", text)), by=by)
        assert not found.equal and not found.same
        assert {(each.why, each.is_error) for each in found.left_out} == {(why, True)}
