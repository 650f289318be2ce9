"""Elements that are compared with numbers."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis import element_checks
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Record, Value


def test_long_arrays_of_numbers_are_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: object) -> None:
        raise AssertionError("the elements are looked at one by one")

    numbers = Value(text="{1.5e-3, -nan(0x8000000000000), inf, 0x1f, 2 <repeats 12 times>, -3}")
    names = Value(text="{RED, 7, (READ | unknown: 0x8)}")
    assert element_checks.holds_enumerators(EquivalenceClass[Record](RankSet([0]), names))
    monkeypatch.setattr(element_checks, "node_of", unwanted)
    assert not element_checks.holds_enumerators(EquivalenceClass[Record](RankSet([0]), numbers))
