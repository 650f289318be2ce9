"""Traces of a session: what makes one, and what is refused before a rank is asked."""

from __future__ import annotations

from typing import Any

import pytest

from pgdb.errors import UsageError
from pgdb.frontend.api.traces import Trace, Traces
from pgdb.ranks import RankSet


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
    ],
)
def test_what_cannot_be_collected_is_refused(expressions: tuple[Any, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        made(*expressions)
