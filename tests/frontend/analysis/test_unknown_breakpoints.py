"""Complaints of ranks about breakpoints that other ranks have."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.unknown_breakpoints import known_as_put_off, known_to_some
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Done, Failure, Record, Text

Records = dict[str, Record]
NONE_1 = "No breakpoint number 1."
NONE_2 = "No breakpoint number 2."
LOST = Failure(message="GDB ended (signal 9)")


def left(records: Records) -> Records:
    classes = (EquivalenceClass(RankSet.parse(ranks), each) for ranks, each in records.items())
    found = known_to_some(Answer("delete 1 2", RankSet.parse("0-5"), tuple(classes)))
    return {str(each.ranks): each.record for each in found.classes}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ({"0-1": Done(), "2-3": Failure(message=NONE_1)}, {"0-3": Done()}),
        ({"0-3": Failure(message=NONE_1)}, {"0-3": Failure(message=NONE_1)}),
        ({"0": Done(), "1": Text(text=NONE_2), "2": Text(text=NONE_1)}, {"0-2": Done()}),
        # Nobody has 2.
        (
            {"0": Text(text=NONE_2), "1": Failure(message=f"{NONE_1}\n{NONE_2}")},
            {"0": Text(text=NONE_2), "1": Failure(message=NONE_2)},
        ),
        # A rank that could not look is no rank that has it.
        (
            {"0": LOST, "1": Failure(message=NONE_1)},
            {"0": LOST, "1": Failure(message=NONE_1)},
        ),
        ({"0": LOST, "1": Done(), "2": Failure(message=NONE_1)}, {"0": LOST, "1-2": Done()}),
        (
            {"0-1": Text(text="Breakpoint 1 now unconditional."), "2": Failure(message=NONE_1)},
            {"0-1": Text(text="Breakpoint 1 now unconditional."), "2": Done()},
        ),
        ({"0": Done(), "1": Failure(message="No tracepoint number 1.2.")}, {"0-1": Done()}),
        ({"0": Done(), "1": Failure(message="No symbol.")}, None),
        ({}, None),
    ],
)
def test_a_number_is_unknown_if_no_rank_has_it(records: Records, expected: Records | None) -> None:
    assert left(records) == (records if expected is None else expected)


def test_a_display_that_is_to_begin_later_is_no_unknown_one() -> None:
    complaint = Text(text="No display number 1.\nNo display number 7.")
    of_all = EquivalenceClass[Record](RankSet.parse("0-3"), complaint)
    answer = Answer("undisplay 1 7", RankSet.parse("0-3"), (of_all,))
    found = known_as_put_off(answer, {1: RankSet.parse("0-1,5")})
    assert {str(each.ranks): each.record for each in found.classes} == {
        "0-1": Text(text="No display number 7."),
        "2-3": complaint,
    }
    assert known_as_put_off(answer, {}) is answer
