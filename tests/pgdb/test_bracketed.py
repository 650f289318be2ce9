"""Commas and blanks outside brackets and quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb.bracketed import comma_parts, pieces


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        (",", ["", ""]),
        ("a, b", ["a", " b"]),
        ("f(a, b),c", ["f(a, b)", "c"]),
        ("m[{1, 2}],x", ["m[{1, 2}]", "x"]),
        ("','", ["','"]),
        (r"'\'',x", [r"'\''", "x"]),
        (r'"a\",b",c', [r'"a\",b"', "c"]),
        (r"'\\',x", [r"'\\'", "x"]),
        # A bracket in quotes opens nothing, and one without its partner holds the rest together.
        ("'(',x", ["'('", "x"]),
        ("f(a, b", ["f(a, b"]),
        ("a), b", ["a)", " b"]),
    ],
)
def test_commas_outside_brackets_and_quotes_separate(text: str, parts: list[str]) -> None:
    assert comma_parts(text) == parts


@given(st.text("ab,()[]{}'\"\\ "))
def test_no_character_is_lost(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert ",".join(comma_parts(text)) == text
