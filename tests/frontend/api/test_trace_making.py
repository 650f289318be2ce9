"""Traces of a session: what makes one, and what is refused before a rank is asked."""

from __future__ import annotations

from typing import Any

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.session import Session
from pgdb.frontend.api.traces import Trace, Traces
from pgdb.overlay.breakpoint_operations import StartTrace
from pgdb.overlay.messages import AnyOperation
from pgdb.ranks import RankSet
from pgdb.records import Failure, Record, Text
from tests.fakes.moving import MovingJob, run


def made(*expressions: Any, every: int = 1, first: int = 0) -> Trace:
    return Traces().new(
        " f ", expressions, condition="", every=every, first=first, ranks=RankSet([0])
    )


def test_a_trace_has_the_line_that_makes_it() -> None:
    assert made("x", " y[1] ", every=2, first=3).line == "trace f x, y[1] --every 2 --first 3"


@pytest.mark.parametrize(
    ("expressions", "why"),
    [
        ((["x", "y"],), "each expression of a trace is a text"),
        ((3,), "each expression of a trace is a text"),
        ((), "at least one expression"),
        ((" ",), "at least one expression"),
        (("x", ""), "none of them empty"),
    ],
)
def test_what_cannot_be_collected_is_refused(expressions: tuple[Any, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        made(*expressions)


class Refusing(MovingJob):
    """Ranks that know no variable but ``x``."""

    def answer(self, operation: AnyOperation, rank: int, request_id: int) -> Record:
        if isinstance(operation, StartTrace):
            if operation.expressions != ("x",):
                return Failure(message='No symbol "y" in current context.')
            return Text(text="a.c:1")
        return super().answer(operation, rank, request_id)


def test_a_trace_that_no_rank_has_takes_no_number() -> None:
    async def test(session: Session) -> None:
        for wrong in range(2):
            assert (await session.trace("f", "y")).errors, wrong
        await session.ranks(RankSet()).trace("f", "x")
        await session.trace("f", "x")
        assert [each.number for each in session.traces] == [1]
        await session.trace("f", "y")
        await session.trace("f", "x")
        assert [each.number for each in session.traces] == [1, 2]

    run(Refusing({rank: [] for rank in range(2)}), test)


def test_numbers_of_traces_are_not_used_twice() -> None:
    """The first of two traces in flight is refused behind the second one's start."""
    traces = Traces()
    first, second = (traces.new("f", ("x",), "", 1, 0, RankSet([0])) for _ in range(2))
    traces.take_back(first)
    traces.keep(second)
    assert traces.new("f", ("x",), "", 1, 0, RankSet([0])).number == 3


@pytest.mark.parametrize("rows", [{"begin": -4}, {"begin": 0, "count": -1}])
def test_rows_below_the_first_are_refused(rows: dict[str, int]) -> None:
    async def test(session: Session) -> None:
        await session.trace("f", "x")
        with pytest.raises(UsageError, match="0 for the first row"):
            await session.trace_table(1, **rows)

    run(Refusing({0: []}), test)


@pytest.mark.parametrize("expression", ["trace:x", " trace:", "trace:1x:y"])
def test_values_of_a_trace_without_a_number_are_refused(expression: str) -> None:
    async def test(session: Session) -> None:
        for call in (session.stat, session.array, session.evaluate):
            with pytest.raises(UsageError, match=r"names no trace; trace:N:EXPR stands for"):
                await call(expression)

    run(Refusing({0: []}), test)
