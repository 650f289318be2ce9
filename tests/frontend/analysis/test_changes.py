"""The parts of a watched value that have changed."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.changes import changes
from pgdb.records import Value


def parts(old: Value | str, new: Value | str) -> list[tuple[str, str]]:
    values = [Value(text=each) if isinstance(each, str) else each for each in (old, new)]
    return [(each.path, each.text) for each in changes(*values)]


def test_only_the_parts_that_have_changed_are_named() -> None:
    old = "{id = 0, x = {0, 0, 0}, p = 0x0}"
    assert parts(old, "{id = 3, x = {0, 1.5, 0}, p = 0x0}") == [
        (".id", "0 -> 3"),
        (".x[1]", "0 -> 1.5"),
    ]


def test_an_address_that_changes_is_a_change() -> None:
    old = "{p = 0x555555551000}"
    assert parts(old, "{p = 0x555555552000}") == [(".p", "0x555555551000 -> 0x555555552000")]


def test_values_are_compared_in_full() -> None:
    numbers = [str(each) for each in range(900)]
    old = Value(text="{0, 1...}", whole="{" + ", ".join(numbers) + "}")
    numbers[800] = "-7"
    new = Value(text="{0, 1...}", whole="{" + ", ".join(numbers) + "}")
    assert parts(old, new) == [("[800]", "800 -> -7")]


@pytest.mark.parametrize(("bounds", "path"), [("", "(3)"), ("-1", "(1)"), ("?", "(lbound+2)")])
def test_places_in_fortran_are_those_of_the_bounds(bounds: str, path: str) -> None:
    old, new = Value(text="(1, 2, 3)", bounds=bounds), Value(text="(1, 2, 4)", bounds=bounds)
    assert [place for place, _ in parts(old, new)] == [path]


@pytest.mark.parametrize(("old", "new"), [("1", "2"), ("{1}", "{1}"), ("{1}", "3")])
def test_there_are_no_parts_of_other_values(old: str, new: str) -> None:
    assert parts(old, new) == []
