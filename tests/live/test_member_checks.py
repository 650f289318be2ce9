"""Members that the types at a place have or lack, before a rank runs there; a real GDB."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import pgdb
from tests.support.programs import Builder, Program, find_mpi

pytestmark = [pytest.mark.mpi]

RUN_TIMEOUT_S = 60.0
RIGHT = (
    *("part.count", "part.inherited", "part.shared", "part.whole", "part.inner.deep"),
    *("reference.count", "renamed.whole", "pointer->count", "many[1].count"),
    *("part.size()", "part.count + 2.5", "number * 1.5", "part"),
)
WRONG = {
    "part.nosuch": "There is no member named nosuch",
    "reference.nosuch": "There is no member named nosuch",
    "renamed.nosuch": "There is no member named nosuch",
    "part.count + many[1].nosuch": "There is no member named nosuch",
    "number.x": "Attempt to extract a component of a value that is not a structure",
    "many.count": "Attempt to extract a component of a value that is not a structure",
}


@pytest.fixture(scope="module")
def program(builder: Builder) -> Program:
    return builder.build(find_mpi("openmpi"), "members.cpp")


@pytest.fixture(scope="module")
def session(program: Program) -> Iterator[pgdb.Session]:
    with pgdb.launch(find_mpi("openmpi").line(1, program)) as session:
        yield session


@pytest.mark.parametrize("expression", RIGHT)
def test_members_that_there_are_are_compared(
    session: pgdb.Session, program: Program, expression: str
) -> None:
    found = session.until_differ(
        expression, at=program.at("step"), limit=1, timeout_s=RUN_TIMEOUT_S
    )
    assert (found.end, found.same_hits) == ("complete", 1)


@pytest.mark.parametrize("expression", WRONG)
def test_members_that_no_type_has_are_refused_before_a_rank_runs(
    session: pgdb.Session, program: Program, expression: str
) -> None:
    where = session.backtrace().classes
    with pytest.raises(pgdb.CommandError, match=WRONG[expression]):
        session.until_differ(expression, at=program.at("step"), timeout_s=RUN_TIMEOUT_S)
    assert session.backtrace().classes == where
