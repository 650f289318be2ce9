"""Calls of which no argument names the missing rank: of neighbours, windows, groups that join."""

from __future__ import annotations

import pytest

from pgdb.mpi_calls import Communicator, MpiCallStatus
from tests.support.why_calls import in_call, outside, waits, win_call
from tests.support.why_groups import of_neighbours
from tests.support.why_jobs import BARRIER, LEADERS, LEFT, PAIR, Job, explained

SECOND_PAIR = Communicator(members="2-3", identity="second pair")


def of(neighbours: str) -> MpiCallStatus:
    return in_call("MPI_Neighbor_allgather", communicator=LEFT, neighbours=neighbours)


@pytest.mark.parametrize("call", [of("1-3"), waits("MPI_Wait", "all", of_neighbours("1-3"))])
def test_a_rank_that_waits_for_one_of_several_neighbours_is_no_cause(call: MpiCallStatus) -> None:
    """One neighbour has left the call out, and the others have come through it."""
    (found,) = explained({"0": call, "1-3": BARRIER}).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == (
        "missing-from-collective",
        "1-3",
        "0",
    )
    assert found.confidence == "cannot tell" and found.decides


def test_only_neighbours_can_be_missing() -> None:
    (found,) = explained({"0": of("1-2"), "1-3": BARRIER}).verdicts
    assert (str(found.ranks), str(found.victims)) == ("1-2", "0,3")
    (found,) = explained({"0": of("2"), "1-3": BARRIER}).verdicts
    assert (str(found.ranks), str(found.victims), found.confidence) == ("2", "0-1,3", "likely")


@pytest.mark.parametrize("function", ["MPI_Neighbor_alltoall", "MPI_Neighbor_allgather"])
def test_a_neighbour_outside_mpi_is_missing_from_the_call(function: str) -> None:
    call = in_call(function, communicator=LEFT, neighbours="3")
    found = explained({"0": call, "1-2": BARRIER, "3": outside(loop="no way out")}).verdicts[0]
    assert (found.kind, str(found.ranks)) == ("missing-from-collective", "3")


def joining(pair: Communicator, tag: int | None) -> MpiCallStatus:
    return in_call("MPI_Intercomm_create", "comm", communicator=pair, tag=tag)


def test_two_groups_with_different_tags_never_join() -> None:
    job: Job = {"0-1": joining(PAIR, 90), "2-3": joining(SECOND_PAIR, 91)}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), found.confidence) == (
        "unmatched-receive",
        "0-3",
        "likely",
    )
    assert "with tag 90" in found.text and "with tag 91" in found.text


def test_groups_with_one_tag_may_have_named_other_leaders() -> None:
    job: Job = {"0-1": joining(PAIR, 90), "2-3": joining(SECOND_PAIR, 90)}
    assert [each.kind for each in explained(job).verdicts] == ["unknown"]
    job = {"0-1": joining(PAIR, 90), "2-3": joining(LEADERS, None)}
    assert [each.kind for each in explained(job).verdicts] == ["unknown"]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("MPI_Win_lock", "for a lock that another rank may hold, and that no rank gives back"),
        ("MPI_Win_unlock", "for a lock that another rank may hold, and that no rank gives back"),
        ("MPI_Win_wait", "for a rank that does not call MPI_Win_complete for this window"),
    ],
)
def test_one_sided_waits_name_the_missing_part(function: str, words: str) -> None:
    (found,) = explained({"0": win_call(function, dest=2), "1-3": BARRIER}).verdicts
    assert f"{words}: ranks 1-3 are in MPI_Barrier" in found.text
