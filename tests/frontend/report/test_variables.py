"""Variables compared across the ranks of a class."""

from __future__ import annotations

from collections.abc import Mapping

from pgdb.frontend.analysis.class_pairs import Class
from pgdb.frontend.report.model import NumberRange, RankValue, ReportVariable
from pgdb.frontend.report.variables import MOST_VALUES, compared, first_differing
from pgdb.merge.classes import Merger
from pgdb.merge.normalize import normalize_record
from pgdb.ranks import RankSet
from pgdb.records import Record, Variable, Variables


def merged(values: Mapping[int, Mapping[str, str]]) -> tuple[Class, ...]:
    merger: Merger[Record] = Merger()
    for rank, items in values.items():
        record = Variables(tuple(Variable(name, value) for name, value in items.items()))
        normalized = normalize_record(record)
        merger.add(RankSet([rank]), normalized.record, normalized.slots)
    return merger.classes


def values_of(variable: ReportVariable) -> dict[str, list[tuple[str, str]]]:
    return {
        place.path: [(each.ranks, each.text) for each in place.values] for place in variable.places
    }


def test_equal_values_are_there_once() -> None:
    (n,) = compared(merged({rank: {"n": "3"} for rank in range(4)}))
    assert n == ReportVariable(name="n", ranks="0-3", text="3")


def test_pointers_that_differ_by_address_only_are_equal() -> None:
    (p,) = compared(merged({0: {"p": "0x7ffe00001000"}, 1: {"p": "0x7ffe00002000"}}))
    assert not p.differs


def test_different_values_have_their_ranks_and_their_range() -> None:
    (n,) = compared(merged({rank: {"n": str(rank // 3)} for rank in range(4)}))
    assert values_of(n) == {"n": [("0-2", "0"), ("3", "1")]}
    assert n.numbers == NumberRange(low="0", high="1", at_low="0-2", at_high="3", distinct=2)


def test_differences_inside_a_structure_are_placed() -> None:
    values = {rank: {"s": f"{{x = {{1, {rank // 3}}}, y = 2}}"} for rank in range(4)}
    (s,) = compared(merged(values))
    assert values_of(s) == {"s.x[1]": [("0-2", "0"), ("3", "1")]}
    assert s.text == "{x = {1, …}, y = 2}"


def test_a_variable_in_which_one_rank_differs_comes_first() -> None:
    values = {
        rank: {"same": "1", "rank": str(rank), "odd": "1" if rank else "nan(0x8000000000000)"}
        for rank in range(4)
    }
    ordered = first_differing(compared(merged(values)))
    assert [each.name for each in ordered] == ["odd", "rank", "same"]


def test_many_different_values_are_cut_and_have_their_range() -> None:
    (n,) = compared(merged({rank: {"n": str(rank)} for rank in range(100)}))
    (place,) = n.places
    assert len(place.values) == MOST_VALUES and place.more == 100 - MOST_VALUES
    assert n.numbers is not None and (n.numbers.low, n.numbers.high) == ("0", "99")


def test_values_that_aggregators_have_summarized() -> None:
    (n,) = compared(merged({rank: {"n": str(rank)} for rank in range(3000)}))
    assert n.differs and n.ranks == "0-2999"
    assert n.numbers == NumberRange(
        low="0", high="2999", at_low="0", at_high="2999", distinct=n.numbers.distinct
    )
    assert n.numbers.distinct > 1000


def test_hundreds_of_texts_are_listed_by_rank() -> None:
    (n,) = compared(merged({rank: {"n": f'"t{rank // 2}"'} for rank in range(600)}))
    (place,) = n.places
    assert place.values[0] == RankValue(ranks="0-1", text='"t0"')
    assert place.more == 300 - MOST_VALUES


def test_two_variables_of_one_name_stay_apart() -> None:
    record = Variables((Variable("i", "1"), Variable("i", "2")))
    merger: Merger[Record] = Merger()
    merger.add(RankSet([0]), record)
    assert [(each.name, each.text) for each in compared(merger.classes)] == [
        ("i", "1"),
        ("i (2)", "2"),
    ]
