"""Long comparisons run where no heartbeat waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from pgdb.frontend.analysis import asked_conditions, assertions
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.analysis.conditions import parse
from pgdb.frontend.analysis.element_checks import Failing
from pgdb.ranks import RankSet
from tests.support.answers import answer
from tests.support.canned_checks import no_recall

T = TypeVar("T")
BOTH = RankSet.range(0, 2)


async def ask(expression: str, ranks: RankSet) -> Answer:
    return answer(("0", "{1, -2}"), ("1", "{1, 2}"), command=f"print {expression}")


@pytest.mark.parametrize("kind", ["assert", "condition"])
def test_elements_are_compared_by_what_computes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = False
    compared: list[bool] = []

    async def compute(work: Callable[[], T], *, name: str) -> T:
        nonlocal inside
        inside = True
        try:
            return work()
        finally:
            inside = False

    module = assertions if kind == "assert" else asked_conditions
    original = module.elements

    def elements(mine: Answer, sides: list[tuple[str, Answer]]) -> list[Failing]:
        compared.append(inside)
        return original(mine, sides)

    monkeypatch.setattr(module, "elements", elements)
    if kind == "assert":
        found = asyncio.run(
            assertions.check(parse("u > 0"), BOTH, ask, no_recall, compute=compute)
        ).passed
    else:
        asked = asked_conditions.ask_condition("u > 0", BOTH, ask, no_recall, compute=compute)
        found = asked_conditions.where(asyncio.run(asked))
    assert (found, compared) == (RankSet([1]), [True])
