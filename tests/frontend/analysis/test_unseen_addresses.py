"""Verdicts name the addresses that they leave out, if these differ."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.assertions import judge_values
from pgdb.frontend.analysis.comparing import compare
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.analysis.unseen_addresses import leaves_out_addresses
from pgdb.frontend.show.text import comparison_text
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.normalize import DIFFERENT_SLOT
from pgdb.records import SLOT, Record, Value
from tests.support.answers import answer, ranks


def said(*texts: str) -> Answer:
    """Return the answer of ranks that have printed *texts*."""
    return answer(*((str(rank), text) for rank, text in enumerate(texts)))


@pytest.mark.parametrize(
    ("texts", "leaves_out"),
    [
        (("(int *) 0x5555555592a0", "(int *) 0x5555555592b0"), True),
        (("(int *) 0x5555555592a0", "(int *) 0x5555555592a0"), False),
        (("{p = 0x5555555592a0, n = 1}", "{p = 0x5555555592b0, n = 1}"), True),
        (("{p = 0x5555555592a0, n = 1}", "{p = 0x5555555592b0, n = 2}"), False),
        (("(int *) 0x5555555592a0 <x>", "(int *) 0x5555555592b0 <x>"), False),
        (('0x5555555592a0 "text"', '0x5555555592b0 "text"'), False),
        (("(S &) @0x5555555592a0: {n = 1}", "(S &) @0x5555555592b0: {n = 1}"), False),
        (("nan(0x8000000000000)", "nan(0x8000000000001)"), False),
        (("{get() = 0x5555555592a0 <x>, p = 0x5555555592a0}",) * 2, False),
        (
            (
                "{f = 0x5555555592a0 <x>, p = 0x5555555592a0}",
                "{f = 0x5555555592b0 <x>, p = 0x5555555592b0}",
            ),
            True,
        ),
        (("4", "4"), False),
    ],
)
def test_addresses_that_differ_in_equal_values_are_named(
    texts: tuple[str, ...], leaves_out: bool
) -> None:
    assert leaves_out_addresses((said(*texts),)) is leaves_out


def test_addresses_of_two_sides_are_compared() -> None:
    one, other = said("0x5555555592a0"), said("0x5555555592b0")
    assert leaves_out_addresses((one, other))
    assert not leaves_out_addresses((one, one))


def test_a_passed_check_says_what_it_has_left_out() -> None:
    merged = EquivalenceClass[Record](
        ranks=ranks("0-1"), record=Value(text=f"(int *) {SLOT}"), slots=(DIFFERENT_SLOT,)
    )
    one = Answer(
        command="print x",
        ranks=ranks("0-1"),
        classes=(merged,),
        missing=Missing(),
        elapsed_s=0.0,
    )
    assert leaves_out_addresses((one,))
    passed = comparison_text.check(judge_values(parse("p"), one))
    assert passed.splitlines()[-1].startswith("(but for the addresses, which were not compared")
    number = comparison_text.check(judge_values(parse("p"), said("4", "4")))
    assert "addresses" not in number
    same = comparison_text.comparison(compare(one, one, by="rank"), "p", before="a", after="b")
    assert "addresses" not in same
