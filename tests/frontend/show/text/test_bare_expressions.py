"""Assertions about an expression that compares nothing: constants, truth values, zeros."""

from __future__ import annotations

import pytest

from pgdb.frontend.show.text import comparison_text
from tests.support.canned_checks import ERROR, checked


def test_a_false_constant_fails() -> None:
    found = checked("0", ("0", {"0-3": "0"}))
    assert not found.ok
    assert comparison_text.check(found).splitlines()[0] == "0 is true: FAILED on [0-3] (4 of 4)"
    assert checked("1", ("1", {"0-3": "1"})).ok


@pytest.mark.parametrize("word", ["false", ".FALSE.", ".false."])
def test_a_false_truth_value_fails_though_it_is_the_same_everywhere(word: str) -> None:
    found = checked("ok", ("ok", {"0-3": word}))
    assert (found.ok, str(found.failed)) == (False, "0-3")
    assert comparison_text.check(found).splitlines() == [
        "ok is true: FAILED on [0-3] (4 of 4)",
        f"[0-3] ok = {word}",
    ]
    # The user has asked for just this.
    assert checked("ok same", ("ok", {"0-3": word})).ok


def test_truth_values_fail_where_they_are_false_or_cannot_be_reported() -> None:
    found = checked("ok", ("ok", {"0-1": "true", "2": "false", "3": ERROR}), running="4")
    assert (str(found.passed), str(found.failed), str(found.unexcused)) == ("0-1", "2-3", "4")


@pytest.mark.parametrize("zero", ["0", "0x0", "(int *) 0x0", "-0", "0 '\\000'"])
def test_a_zero_on_all_ranks_is_pointed_out(zero: str) -> None:
    found = checked("done", ("done", {"0-3": zero}))
    assert found.ok
    assert comparison_text.check(found).splitlines() == [
        "done is the same on all ranks: passed on [0-3]",
        f"(the value is {zero}; 'assert done true' fails for a zero)",
    ]
    assert "fails for" not in comparison_text.check(checked("d same", ("d", {"0-3": zero})))


@pytest.mark.parametrize("other", ["7", "(int *) 0x55555575", "{p = 0x0}", '"0"'])
def test_other_values_need_no_note(other: str) -> None:
    found = checked("done", ("done", {"0-3": other}))
    assert comparison_text.check(found) == "done is the same on all ranks: passed on [0-3]"
