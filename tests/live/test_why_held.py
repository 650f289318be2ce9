"""The reasons why ranks wait for held ranks, which stand still whatever their calls say."""

from __future__ import annotations

import pytest

import pgdb
from pgdb.mpi_calls import MpiCallStatus
from pgdb.ranks import RankSet
from tests.conftest import Build
from tests.support.processes import wait_until
from tests.support.programs import Mpi

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 4
RUN_TIMEOUT_S = 60.0
OTHERS = RankSet([0, 1, 2])


def in_call(view: pgdb.Ranks, function: str) -> bool:
    """Return whether the ranks are in a call, and stop them there; if not, they run on."""
    view.interrupt()
    answer = view.mpi_calls()
    if answer.missing.ranks:
        return False
    inside = RankSet.union(
        each.ranks
        for each in answer.classes
        if isinstance(each.record, MpiCallStatus)
        and each.record.call is not None
        and each.record.call.function == function
    )
    if inside == view.set:
        return True
    view.continue_(wait=False)
    return False


@pytest.mark.parametrize(("place", "function"), [("hit", "MPI_Barrier"), ("end", "MPI_Finalize")])
def test_a_rank_held_in_a_call_is_named_with_the_way_out(
    mpi: Mpi, build: Build, place: str, function: str
) -> None:
    """The library decides how many of the others leave the call without the held rank."""
    program = build("halo.c", "-lm")
    with pgdb.launch(mpi.line(RANKS, program, "1")) as session:
        session.break_at(program.at(place))
        session.continue_(timeout_s=RUN_TIMEOUT_S).check()
        session.delete(1)
        last, others = session[3], session.ranks(OTHERS)
        last.continue_(wait=False)
        wait_until(lambda: in_call(last, function), f"rank 3 is in {function}")
        last.hold()
        others.continue_(wait=False)
        found = session.why()
        shown = str(found)
        assert "release 3" in shown and "held" in shown, shown
        assert "can progress" not in shown and "all members are there" not in shown, shown
        assert all(3 not in each.ranks or each.confidence != "certain" for each in found.verdicts)


def test_a_rank_held_at_a_breakpoint_is_named_as_held(mpi: Mpi, build: Build) -> None:
    program = build("halo.c", "-lm")
    with pgdb.launch(mpi.line(RANKS, program, "1")) as session:
        session.break_at(program.at("hit"))
        session.continue_(timeout_s=RUN_TIMEOUT_S).check()
        session[2].hold()
        session.continue_(wait=False)
        others = session.ranks("0,1,3")
        wait_until(lambda: in_call(others, "MPI_Barrier"), "the others are in MPI_Barrier")
        (only,) = session.why().verdicts
        assert (only.kind, str(only.ranks)) == ("missing-from-collective", "2")
        assert only.confidence == "certain"
        assert "rank 2, which is stopped at breakpoint 1 and held" in only.text
        assert only.text.endswith("; 'release 2' lets it run again")
