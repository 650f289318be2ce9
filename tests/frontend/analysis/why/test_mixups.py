"""A rank that is alone in a call of one communicator, and missing in the same call of another."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdb.frontend.analysis.why.waiting import Watch
from pgdb.mpi_calls import CallSite, Communicator, MpiCallStatus
from pgdb.ranks import RankSet
from tests.support.why_calls import in_call
from tests.support.why_jobs import Job, explained

WORLD = Communicator(name="MPI_COMM_WORLD", members="0-5")
ROW = Communicator(members="3-5", identity="row")
COLUMN = Communicator(members="1,4", identity="column")
WATCHED = Watch(still=RankSet.parse("0-5"), seconds=1.0)
ELSEWHERE = CallSite(function="main", file="/src/ring.c", line=70)


def reduction(comm: Communicator, operation: str = "MPI_SUM") -> MpiCallStatus:
    return in_call("MPI_Allreduce", communicator=comm, operation=operation)


BARRIER = in_call("MPI_Barrier", communicator=WORLD)
EIGHT = Watch(still=RankSet.parse("0-7"), seconds=1.0)


def test_the_rank_in_the_other_communicator_is_the_cause() -> None:
    job: Job = {"0-2": BARRIER, "3,5": reduction(ROW), "4": reduction(COLUMN)}
    (found,) = explained(job, WATCHED).verdicts
    assert (found.kind, str(found.ranks), str(found.victims), found.confidence) == (
        "communicator-mixup",
        "4",
        "0-3,5",
        "likely",
    )
    assert "rank 4 is alone in MPI_Allreduce" in found.text
    assert "ranks 3,5 wait for it in the same call of [3-5]" in found.text
    assert "or rank 1 has left a call out" in found.text


@pytest.mark.parametrize(
    "other",
    [
        # A call at another place: rank 1 may have left it out.
        replace(reduction(COLUMN), where=ELSEWHERE),
        reduction(COLUMN, "MPI_MAX"),
    ],
)
def test_another_call_may_be_one_that_a_member_has_left_out(other: MpiCallStatus) -> None:
    job: Job = {"0-2": BARRIER, "3,5": reduction(ROW), "4": other}
    assert "communicator-mixup" not in [each.kind for each in explained(job, WATCHED).verdicts]


def test_one_rank_is_more_likely_to_be_wrong_than_several() -> None:
    wide = reduction(WORLD)
    job: Job = {"0-2": BARRIER, "3,5": reduction(ROW), "4": replace(wide, where=ELSEWHERE)}
    (found,) = explained(job, WATCHED).verdicts
    assert (found.kind, str(found.ranks)) == ("communicator-mixup", "4")


def test_members_that_wait_in_the_other_call_have_another_order() -> None:
    pair = Communicator(members="3-4", identity="pair")
    job: Job = {"0-2": BARRIER, "3,5": reduction(ROW), "4": reduction(pair)}
    assert [each.kind for each in explained(job, WATCHED).verdicts] == ["collective-order"]


def grid() -> Job:
    """Rank 5 of two rows of four has left a call of its row out, and all others wait behind it.

    Communicators without a common member have one number.
    """
    column, row = (Communicator(identity=each) for each in ("column", "row"))
    job: Job = {"4,6-7": reduction(replace(row, members="4-7"))}
    job["1"] = reduction(replace(row, members="0-3"))
    for each in (0, 2, 3):
        job[f"{each}"] = reduction(replace(column, members=f"{each},{each + 4}"))
    job["5"] = reduction(replace(column, members="1,5"))
    return job


def test_most_members_of_one_communicator_wait_for_the_rank_that_left_the_call_out() -> None:
    (found,) = explained(grid(), EIGHT).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == (
        "collective-order",
        "5",
        "0-4,6-7",
    )
    assert found.confidence == "likely" and "counts the calls of each rank" in found.decides
