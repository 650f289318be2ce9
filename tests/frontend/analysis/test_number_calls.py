"""Functions of one number do not take arrays: GDB would pass an address."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.asked_conditions import Evaluate, ask_condition, truth
from pgdb.frontend.analysis.assertions import check
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.analysis.number_calls import arguments_of
from pgdb.ranks import RankSet
from tests.support.answers import answer, ranks
from tests.support.canned_checks import no_recall

ALL = ranks("0-3")
ARRAY, COMPLEX = "{1, -200}", "3 + 4i"


def evaluated(**texts: str) -> tuple[list[str], Evaluate]:
    """Return the expressions that will be asked for, and an evaluation by their *texts*."""
    asked: list[str] = []

    async def evaluate(expression: str, some: RankSet) -> Answer:
        asked.append(expression)
        return answer((str(some), texts.get(expression, "1")))

    return asked, evaluate


@pytest.mark.parametrize(
    ("condition", "arguments"),
    [
        ("abs(u) < 1", ["u"]),
        ("std::fabs(u[1]) < 1 && sqrt(v) > 0", ["u[1]", "v"]),
        ("labs( u ) == llabs(v)", ["u", "v"]),
        ("my_abs(u) < 1", []),
        ("s.abs(u) < 1", []),
        ("norm(u, 5) < 1", []),
        ("abs(-3) < u", []),
        ("abs(f(u)) < 1", []),  # not called once more
        ("abs(u", []),
        ("sizeof(u) < 1", []),
    ],
)
def test_calls_of_functions_of_one_number(condition: str, arguments: list[str]) -> None:
    found = [argument for _, argument in arguments_of(condition).values()]
    assert found == arguments


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("abs(u) < 100", "an array"),
        ("fabs(u) in 0..50", "an array"),
        ("sqrt(u) same", "an array"),
        ("fabs(z) < 6", "a complex number"),
    ],
)
def test_no_verdict_is_made_of_an_address(line: str, kind: str) -> None:
    asked, evaluate = evaluated(u=ARRAY, z=COMPLEX)
    found = asyncio.run(check(parse(line), ALL, evaluate, no_recall))
    (failing,) = found.failing
    assert failing.ranks == ALL and failing.is_error and not found.passed and not found.ok
    assert f"is {kind}" in failing.value and "'stat " in failing.value
    assert len(asked) == 1  # the call itself is not made


def test_a_condition_of_a_set_has_no_value_then() -> None:
    _, evaluate = evaluated(u=ARRAY)
    said = asyncio.run(ask_condition("abs(u) > 1", ALL, evaluate, no_recall))
    found = truth(said)
    assert not found.true and not found.false
    assert "'stat abs(u)'" in str(found.errors[0].filled)


def test_ranks_with_a_number_are_judged() -> None:
    async def evaluate(expression: str, some: RankSet) -> Answer:
        if expression != "u":
            return answer((str(some), "1"))
        parts = [(ranks("0-2"), "-5"), (ranks("3"), ARRAY)]
        return answer(*((str(both), text) for them, text in parts if (both := them & some)))

    found = asyncio.run(check(parse("abs(u) < 100"), ALL, evaluate, no_recall))
    assert found.passed == ranks("0-2") and found.failed == ranks("3")


def test_elements_numbers_and_containers_are_passed() -> None:
    _, evaluate = evaluated(u="-5", v="std::vector of length 2, capacity 2 = {1, 2}")
    for line in ("abs(u) < 100", "sqrt(v) < 100"):
        found = asyncio.run(check(parse(line), ALL, evaluate, no_recall))
        assert found.ok, line
