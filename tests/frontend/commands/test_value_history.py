"""Expressions that name a value of GDB's history by its number."""

from __future__ import annotations

import pytest

from pgdb.frontend.commands.value_history import is_counted


@pytest.mark.parametrize(
    ("expression", "is_so"),
    [
        ("$1", True),
        ("$3.x + 1", True),
        ("a[$$2]", True),
        ("$$", True),
        ("*$$ + 1", True),
        ("$", False),
        ("$pc", False),
        ("$_1", False),
        ("$a1", False),
        ('strlen("$1")', False),
        ("f('\\'', $2)", True),
        ("a$1", False),
    ],
)
def test_values_by_number(expression: str, is_so: bool) -> None:
    assert is_counted(expression) is is_so
