"""Places of parts as expressions that GDB evaluates."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.paths import behind, place_of


@pytest.mark.parametrize(
    "expression",
    [
        "x",
        "s.domain->cells[3]",
        "ns::table<int, 4>::rows",
        "grid(1:3,2)%cell",
        "f(a + b, ')')[1]",
        'm["a]"]',
        "'main.c'::x",
        "$1",
        "(*p).x",
        "this->energy",
        "x._element(2)",
        "py:grid.rows['a]'][1, 2]",
    ],
)
def test_a_path_is_appended_to_what_it_belongs_to(expression: str) -> None:
    assert behind(expression, ".x[1]") == ".x[1]"
    assert place_of(expression, ".x[1]") == f"{expression}.x[1]"


@pytest.mark.parametrize(
    ("expression", "path", "place"),
    [
        ("*s->domain", ".procCoord[0]", "s->domain->procCoord[0]"),
        ("*this", ".rank", "this->rank"),
        ("*p", "[3]", "(*p)[3]"),
        ("**p", ".x", "(**p).x"),
        ("*p + 1", ".x", "(*p + 1).x"),
        ("(struct s *) p", ".x", "((struct s *) p).x"),
        ("*(struct s *) p", ".x", "(*(struct s *) p).x"),
        ("p[0]@3", "[1].x", "(p[0]@3)[1].x"),
        ("&x", ".y", "(&x).y"),
        ("-elements 3 -- *p", ".x", "p->x"),
        ("a - b", "[1]", "(a - b)[1]"),
        ("py:a - b", "[1]", "(py:a - b)[1]"),
        ("u", "(lbound+2)", "u(lbound(u,1)+2)"),
        (
            "t%u",
            "(3,lbound+2)%v(lbound+1)",
            "t%u(3,lbound(t%u,2)+2)%v(lbound(t%u(3,lbound(t%u,2)+2)%v,1)+1)",
        ),
    ],
)
def test_a_path_behind_an_operator_gets_parentheses(expression: str, path: str, place: str) -> None:
    assert place_of(expression, path) == place
    assert behind(expression, path) == place


def test_the_whole_value_is_the_expression() -> None:
    assert behind("*p", "") == "*p"
    assert behind("", ".x") == ".x"
