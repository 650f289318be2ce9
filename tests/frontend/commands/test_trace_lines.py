"""The line of ``trace``: where the location, the expressions and the condition are."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.commands.trace_lines import TraceLine, read_trace


@pytest.mark.parametrize(
    ("text", "place", "expressions", "condition"),
    [
        ("f x", "f", ("x",), ""),
        ("a.c:3 x y", "a.c:3", ("x", "y"), ""),
        ("a.c:3 x,y", "a.c:3", ("x", "y"), ""),
        ("a.c:3 x , y ,z", "a.c:3", ("x", "y", "z"), ""),
        ("f x if y > 3", "f", ("x",), "y > 3"),
        ("f x if g(a if b) == 1", "f", ("x",), "g(a if b) == 1"),
        ("f u[i + 1] v (int) w", "f", ("u[i + 1]", "v", "(int) w"), ""),
        ("f a + b c", "f", ("a + b", "c"), ""),
        ("f a * b, *p", "f", ("a * b", "*p"), ""),
        ("f a -b", "f", ("a -b",), ""),
        ("f max(a, b) m[1, 2]", "f", ("max(a, b)", "m[1, 2]"), ""),
        ("f s.name \"a, b\" 'c d'", "f", ("s.name", '"a, b"', "'c d'"), ""),
        ("N::f<int, 3>(int) x", "N::f<int,", ("3>(int)", "x"), ""),
        ("'N::f<int, 3>(int)' x", "'N::f<int, 3>(int)'", ("x",), ""),
        ("f (open x", "f", ("(open x",), ""),
    ],
)
def test_expressions_come_apart(
    text: str, place: str, expressions: tuple[str, ...], condition: str
) -> None:
    assert read_trace(text) == TraceLine(place, expressions, condition)


@pytest.mark.parametrize("text", ["f x,,y", "f x,", "f ,x", "f x , , y", "f , if x", "f ,"])
def test_a_comma_without_an_expression_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="an expression is missing beside a comma"):
        read_trace(text)


@pytest.mark.parametrize(
    "text",
    ["", "f", "f if x > 3", "f thread 2", "*0x1234", "-qualified f", "f -force-condition if x"],
)
def test_a_line_without_expressions_is_that_of_gdb(text: str) -> None:
    assert not read_trace(text).expressions
