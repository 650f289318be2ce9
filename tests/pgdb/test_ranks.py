"""Rank sets: the notation, and the algebra compared with that of Python's sets."""

from __future__ import annotations

import itertools
import random
import re
from array import array
from operator import and_, le, or_, sub, xor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb import ranks as rank_sets
from pgdb.errors import RankSetError
from pgdb.ranks import MAX_RANK, RankSet

# Dense and sparse sets, with steps, and the ends of the range of ranks.
members = st.frozensets(
    st.integers(0, 40) | st.integers(0, MAX_RANK) | st.sampled_from([0, 65535, 65536, MAX_RANK])
)
strided = st.builds(
    lambda first, count, step: frozenset(range(first, first + count * step, step)),
    st.integers(0, 300),
    st.integers(0, 200),
    st.integers(1, 9),
)
python_sets = st.lists(members | strided, max_size=3).map(
    lambda several: frozenset().union(*several)
)


@given(python_sets.filter(bool))
def test_the_text_of_a_set_parses_back_to_it(numbers: frozenset[int]) -> None:
    ranks = RankSet(numbers)
    assert RankSet.parse(str(ranks)) == ranks
    assert RankSet.parse(f"[{ranks}]") == ranks
    assert list(ranks) == sorted(numbers)


@given(python_sets)
def test_the_text_is_ordered_and_no_longer_than_a_list(numbers: frozenset[int]) -> None:
    text = str(RankSet(numbers))
    assert len(text) <= len(",".join(map(str, sorted(numbers))))
    firsts = [int(re.split(r"[-/]", part)[0]) for part in text.split(",") if part]
    assert sorted(firsts) == firsts


@given(python_sets)
def test_the_runs_are_disjoint_and_together_the_set(numbers: frozenset[int]) -> None:
    found: list[int] = []
    for first, last, step in RankSet(numbers).strided_ranges():
        found.extend(range(first, last + 1, step))
        assert found[-1] == last
    assert len(found) == len(numbers)
    assert set(found) == numbers


@given(python_sets, python_sets)
def test_the_algebra_is_that_of_sets(one: frozenset[int], other: frozenset[int]) -> None:
    a, b = RankSet(one), RankSet(other)
    assert set(a | b) == one | other
    assert set(a & b) == one & other
    assert set(a - b) == one - other
    assert set(a ^ b) == one ^ other
    assert (a <= b) == (one <= other)
    assert a.isdisjoint(b) == one.isdisjoint(other)
    assert (a == b) == (one == other)
    assert set(RankSet.union((a, b, a))) == one | other
    assert len(a) == len(one) and bool(a) == bool(one)
    if one:
        assert a.first == min(one)
    if one == other:
        assert hash(a) == hash(b)


@given(python_sets)
def test_bytes_and_back(numbers: frozenset[int]) -> None:
    ranks = RankSet(numbers)
    assert RankSet.from_bytes(ranks.to_bytes()) == ranks


@given(st.binary(max_size=80))
def test_foreign_bytes_are_a_rank_set_or_an_error_of_ours(data: bytes) -> None:
    try:
        ranks = RankSet.from_bytes(data)
    except RankSetError:
        return
    assert isinstance(len(ranks), int)


@pytest.mark.parametrize("data", [b"", b"\0", b"junk of some length"])
def test_bytes_that_are_no_bitmap_are_refused(data: bytes) -> None:
    with pytest.raises(RankSetError, match="no serialised rank set"):
        RankSet.from_bytes(data)


EIGHT = RankSet.range(0, 8)


def named(name: str) -> RankSet | None:
    return RankSet([1, 3]) if name == "odd" else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", "3"),
        ("0-3,8", "0-3,8"),
        ("0..3", "0-3"),
        ("0-7/2", "0-6/2"),
        ("1..7/3", "1,4,7"),
        ("5-5", "5"),
        ("5-6/9", "5"),
        (" [ 0-3 , 8 ] ", "0-3,8"),
        ("3,1,2,1", "1-3"),
        ("all", "0-7"),
        ("!0", "1-7"),
        ("! @odd", "0,2,4-7"),
        ("all!0!1", "2-7"),
        ("0-3!1,1", "0-3"),
        ("0-5&@odd", "1,3"),
        ("0-3^2-5", "0-1,4-5"),
        ("0-3&2-5^3", "2"),
        ("007", "7"),
        (f"{MAX_RANK}", f"{MAX_RANK}"),
        ("0" * 400 + "7", "7"),
    ],
)
def test_notation(text: str, expected: str) -> None:
    assert str(RankSet.parse(text, everything=EIGHT, named=named)) == expected


@pytest.mark.parametrize(
    ("text", "faulty"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("[]", "is empty"),
        ("0,7-5", "'7-5' runs backwards; write '5-7'"),
        ("0,7..5", "'7..5' runs backwards; write '5-7'"),
        ("0-7/0", "'0-7/0' has a step of 0"),
        ("0,x", "'x' is no rank or range"),
        ("0,-3", "'-3' is no rank or range"),
        ("0 1", "'0 1' is no rank or range"),
        ("1-", "'1-' is no rank or range"),
        ("3/2", "'3/2' is no rank or range"),
        ("[0-3", "'[0-3' is no rank or range"),
        ("0x10", "'0x10' is no rank or range"),
        ("1.5", "'1.5' is no rank or range"),
        (",1", "nothing stands before ','"),
        ("1,,2", "nothing stands before ','"),
        ("1,&2", "nothing stands before '&'"),
        ("1,", "nothing follows ','"),
        ("1!", "nothing follows '!'"),
        ("!", "nothing follows '!'"),
        ("0,@even", "'@even'"),
        ("@", "'@'"),
        (f"0,{MAX_RANK + 1}", f"{MAX_RANK + 1} is larger than any MPI rank"),
        (f"5-{MAX_RANK + 1}", f"{MAX_RANK + 1} is larger than any MPI rank"),
    ],
)
def test_the_message_names_the_faulty_term(text: str, faulty: str) -> None:
    with pytest.raises(RankSetError) as caught:
        RankSet.parse(text, everything=EIGHT, named=named)
    assert faulty in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["9" * 5000, "1-" + "9" * 5000, "1-2/" + "9" * 5000])
def test_numbers_that_python_would_not_read_are_refused_in_our_words(text: str) -> None:
    with pytest.raises(RankSetError, match="larger than any MPI rank"):
        RankSet.parse(text)


def test_ranges_with_a_step_have_a_limit() -> None:
    assert str(RankSet.parse("3-9/99999999999999999999")) == "3"
    whole = f"0-{MAX_RANK}/3"
    assert len(RankSet.parse(whole)) == MAX_RANK // 3 + 1
    with pytest.raises(RankSetError, match="too many ranges with a step"):
        RankSet.parse(",".join([whole] * 5000))


def test_words_that_need_a_job_say_so_without_one() -> None:
    with pytest.raises(RankSetError, match="'all' means nothing before there is a job"):
        RankSet.parse("0,all")
    with pytest.raises(RankSetError, match="nothing stands before '!'"):
        RankSet.parse("!0")
    with pytest.raises(RankSetError, match="no set named '@odd'; 'defset NAME SET' makes one"):
        RankSet.parse("@odd")


@given(st.text(alphabet="0123456789-./,!&^@al[] x", max_size=12))
def test_any_text_is_a_set_or_an_error_of_ours(text: str) -> None:
    try:
        RankSet.parse(text, everything=EIGHT, named=named)
    except RankSetError as error:
        assert "\n" not in str(error)


def test_huge_ranges_are_neither_listed_nor_stepped_through() -> None:
    # Some million ranks: within milliseconds this is possible only without a list of them.
    huge = RankSet.parse(f"0-{MAX_RANK}")
    assert len(huge) == MAX_RANK + 1
    assert str(huge) == f"0-{MAX_RANK}"
    assert str(huge - RankSet([5])) == f"0-4,6-{MAX_RANK}"
    assert list((huge ^ huge).strided_ranges()) == []


def test_a_set_is_shown_folded() -> None:
    assert str(RankSet()) == ""
    assert str(RankSet([0, 2])) == "0,2"
    assert str(RankSet([0, 2, 4])) == "0,2,4"
    assert str(RankSet([0, 2, 4, 6])) == "0-6/2"
    assert str(RankSet([0, 1])) == "0-1"
    assert repr(RankSet([0, 1, 2, 5])) == "RankSet('0-2,5')"


def test_an_empty_set_has_no_first_rank() -> None:
    with pytest.raises(ValueError, match="no first rank"):
        _ = RankSet().first


def test_a_set_is_not_equal_to_a_python_set() -> None:
    assert RankSet([1]) != {1}
    assert 1 in RankSet([1]) and 2 not in RankSet([1])


# -- arrays, and sets with very many runs --------------------------------------------------------


@given(python_sets)
def test_an_array_and_back(numbers: frozenset[int]) -> None:
    ranks = RankSet(numbers)
    listed = ranks.to_array()
    assert listed.typecode == "I" and listed.tolist() == sorted(numbers)
    assert RankSet.from_array(listed) == ranks


def test_an_array_need_not_be_in_order() -> None:
    assert RankSet.from_array(array("I", [7, 3, 3, 9])) == RankSet([3, 7, 9])


@given(python_sets)
def test_runs_are_counted(numbers: frozenset[int]) -> None:
    begins = sum(number - 1 not in numbers for number in numbers)
    assert RankSet(numbers).run_count == begins


# Runs of every length beside one another, and steps that hold for a while.
gappy = st.lists(st.sampled_from([1, 1, 2, 2, 2, 3, 3, 10]), max_size=60).map(
    lambda gaps: frozenset(itertools.accumulate(gaps))
)


@given(gappy | python_sets)
def test_sets_of_many_runs_are_folded_in_the_same_way(numbers: frozenset[int]) -> None:
    ranks = RankSet(numbers)
    plain = [*ranks.strided_ranges()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank_sets, "MANY_RUNS", -1)
        assert [*ranks.strided_ranges()] == plain


def test_sets_around_the_limit_are_folded_in_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 10_000
    rng = random.Random(3)
    alone = RankSet(itertools.accumulate(rng.choice([2, 3, 3, 3, 5]) for _ in range(limit)))
    runs = RankSet.union(RankSet.range(at, at + rng.randint(1, 4)) for at in range(0, 5 * limit, 5))
    for ranks in (alone, runs, RankSet.range(0, 4 * limit, 2)):
        over = ranks | RankSet([10 * limit])
        texts = {str(each): each for each in (ranks, over)}
        assert len(texts) == 2
        for text, each in texts.items():
            assert RankSet.parse(text) == each
            monkeypatch.setattr(rank_sets, "MANY_RUNS", 1 << 40)
            assert str(each) == text
            monkeypatch.setattr(rank_sets, "MANY_RUNS", limit)
        assert over.run_count > ranks.run_count
    assert alone.run_count == runs.run_count == limit


@pytest.mark.parametrize("ranks", [3, None, "0-3", b"01", b"0123", ["0"], [1.5], [-1], [1 << 40]])
def test_sets_are_made_of_ranks_only(ranks: Any) -> None:
    with pytest.raises(RankSetError, match="ranks are whole numbers from 0 on"):
        RankSet(ranks)


@pytest.mark.parametrize("text", [3, None, ["0-3"], b"0-3"])
def test_a_text_is_parsed_only(text: Any) -> None:
    with pytest.raises(RankSetError, match="is no text such as '0-3'"):
        RankSet.parse(text)


def test_operators_refuse_other_values() -> None:
    some = RankSet([1, 3])
    other: Any = [1]
    for operator in (or_, and_, sub, xor, le):
        with pytest.raises(TypeError, match="RankSet"):
            operator(some, other)
    with pytest.raises(TypeError, match="takes a RankSet, and not"):
        some.isdisjoint(other)
    for sets in ([other], [some, other]):
        with pytest.raises(TypeError, match="takes RankSets only"):
            RankSet.union(sets)
    strange: Any = ("1", -1, None, 1 << 40)
    assert not any(each in some for each in strange)
