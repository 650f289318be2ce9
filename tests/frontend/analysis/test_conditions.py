"""Conditions over ranks: parsing."""

from __future__ import annotations

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.analysis.conditions import parse, same


@pytest.mark.parametrize(
    ("text", "kind", "expression"),
    [
        ("x", "same", "x"),
        ("x same", "same", "x"),
        ("x is same", "same", "x"),
        ("p->step increasing", "increasing", "p->step"),
        ("a + b nonincreasing", "nonincreasing", "a + b"),
        ("ready() true", "true", "ready()"),
        ("x in 0..3", "within", "x"),
        ("a[i] in -1.5 .. n - 1", "within", "a[i]"),
        ("x > 0", "true", "x"),
        ("(x > 0)", "true", "x"),
        ("x >= y + 1", "true", "x"),
        ("a.b[i < 3] == 7", "true", "a.b[i < 3]"),
        ("x > 0 && y < 1", "true", "x > 0 && y < 1"),
        ("0 < x < 3", "true", "0 < x < 3"),
        ("!done", "true", "!done"),
        ("step .lt. 10", "true", "step"),
        ("step /= 10", "true", "step"),
        (".not. done", "true", ".not. done"),
        # The last word is an operand.
        ("flag != true", "true", "flag"),
        ("flag == true", "true", "flag"),
        ("flag .eq. true", "true", "flag"),
        ("x && true", "true", "x && true"),
        ("flags true", "true", "flags"),
        # None of these compares.
        ("x << 3", "same", "x << 3"),
        ("p->next", "same", "p->next"),
        ("f(a < b)", "same", "f(a < b)"),
        ("std::max<int>(a, b)", "same", "std::max<int>(a, b)"),
        ("Grid<double>::count", "same", "Grid<double>::count"),
        ('strlen("a == b")', "same", 'strlen("a == b")'),
        ("c['<']", "same", "c['<']"),
        ("increasing", "same", "increasing"),
    ],
)
def test_forms(text: str, kind: str, expression: str) -> None:
    found = parse(text)
    assert (found.kind, found.expression) == (kind, expression)
    if kind == "true":
        assert len(found.conditions) == 1


def test_a_range_is_two_conditions() -> None:
    assert parse("x in 0..n-1").conditions == ("(x) >= (0)", "(x) <= (n-1)")


def test_an_unfinished_expression_gets_no_word_of_assert() -> None:
    assert parse("1 + same").expression == "1 + same"
    found = same("1 +")
    assert (found.expression, found.kind) == ("1 +", "same")
    assert found.title == "1 + is the same on all ranks"


def test_nothing_to_check() -> None:
    with pytest.raises(UsageError, match="a condition is missing"):
        parse("  ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("rank in 3..0", "runs backwards; write '0..3'"),
        ("rank in 0", "'in' needs two ends: 'rank in 0..3'"),
        ("a[i] is in 0..", "'in' needs two ends"),
        ("rank foo", "'foo' is unknown"),
        ("a[i < 3] increasingly", "'increasingly' is unknown"),
    ],
)
def test_what_is_no_condition(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse(text)


@pytest.mark.parametrize(
    "text",
    ["sizeof x", "(unsigned char) x", "unsigned long", "*(struct a *) p", "a[in] + b", "x[1]"],
)
def test_what_is_an_expression(text: str) -> None:
    assert parse(text).kind == "same"


@pytest.mark.slow
@pytest.mark.parametrize(
    "word",
    [
        "9",
        "a",
        " ",
        "x ",
        " in 1",
        " is in",
        "<a",
        "a<a",
        "f<a> ",
        "f<> ",
        '\\"',
        "'\\'",
        "&&a",
        "a ",
    ],
)
@pytest.mark.parametrize("form", ["{}", "x > {}", '"{}', "({}) z", "x{}y z", "f<{}("])
def test_a_very_long_line_is_judged_as_a_long_one(form: str, word: str) -> None:
    def judged(letters: int) -> str:
        text = form.format(word * (letters // len(word)))
        try:
            return parse(text).kind
        except UsageError as error:
            return type(error).__name__

    # A search that restarts at each letter would not come to an end within the limit of a test.
    assert judged(200_000) == judged(2_000)


@pytest.mark.parametrize("opens, closes", [("(", ")"), ("!", ""), (".not. ", "")])
def test_brackets_and_negations_are_of_no_number(opens: str, closes: str) -> None:
    many = 20_000
    found = parse(f"{opens * many}x > 0{closes * many}")
    assert found.kind == "true"
    assert found.operands[0] == "x"


def test_what_is_nested_deeper_than_anybody_would_is_refused() -> None:
    assert len(parse(f"{'(a && ' * 40}b{')' * 40}").operands) == 2
    for text in (f"{'(a && ' * 400}b{')' * 400}", f"{'!(' * 400}b{')' * 400}"):
        with pytest.raises(UsageError, match="100 deep"):
            parse(text)


@pytest.mark.parametrize(
    "text",
    ["x = 1", "x += 2", "(y = 3) > 2", "a[i = 1] same", "x <<= 1", "x xor_eq 1", "1 > x or_eq 2"],
)
def test_what_would_assign_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="would change the program"):
        parse(text)


@pytest.mark.parametrize("text", ["rank, size", "rank, size same", "a > 0, b > 0", "x, y in 0..1"])
def test_a_list_is_refused_of_which_c_has_only_the_last_value(text: str) -> None:
    with pytest.raises(UsageError, match="several expressions"):
        parse(text)


@pytest.mark.parametrize(
    "text", ["f(a, b)", "m[0, 1] > 2", "u(1, 2) same", "max<int, int>(a, b) > 0", "s == 'a, b'"]
)
def test_a_comma_inside_an_expression_makes_no_list(text: str) -> None:
    assert parse(text)


@pytest.mark.parametrize(
    "text", ["x == 1", "x <= 1", "x >= 1", "x != 1", 's == "a = b"', "c == '='", "x /= 3"]
)
def test_what_compares_assigns_nothing(text: str) -> None:
    assert parse(text)


@pytest.mark.parametrize(
    ("text", "kind", "is_bare"),
    [
        ("0", "true", False),
        ("1", "true", False),
        ("0x0", "true", False),
        ("3 - 3", "true", False),
        ("(1.5e3)", "true", False),
        ("x", "same", True),
        ("e3", "same", True),
        ("$rip", "same", True),
        ("x same", "same", False),
        ("!ok", "true", False),
        ("x == 3", "true", False),
        (".not. ok", "true", False),
    ],
)
def test_a_bare_constant_is_a_condition(text: str, kind: str, is_bare: bool) -> None:
    found = parse(text)
    assert (found.kind, found.is_bare) == (kind, is_bare)
