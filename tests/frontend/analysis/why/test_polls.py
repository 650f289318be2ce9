"""Verdicts about ranks that make several tests and probes, one after the other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdb.frontend.analysis.why.parties import Party, is_one_sided
from pgdb.mpi_calls import ANY_SOURCE, Group, MpiCall, MpiCallStatus
from pgdb.ranks import RankSet
from tests.support.why_calls import (
    call,
    in_call,
    outside,
    polls,
    recv,
    request,
    status,
    waits,
    win_call,
)
from tests.support.why_jobs import BARRIER, Job, explained

PROBE = polls("MPI_Iprobe", "probe", source=ANY_SOURCE, tag=30)
CONSENSUS = waits("MPI_Test", "all", request("collective", None, complete=False))


def serving(*others: MpiCallStatus) -> MpiCallStatus:
    """Return the status of a rank that probes for messages of any rank, and makes other polls."""
    return status(*PROBE.calls, *(made for each in others for made in each.calls))


SENDS = waits("MPI_Testall", "all", request("send", 3, 31, complete=False))


@pytest.mark.parametrize(
    ("job", "kind", "ranks", "victims"),
    [
        # The others are through with their sends.
        ({"0-1,3": serving(CONSENSUS), "2": serving(SENDS)}, "unmatched-send", "2", "0-1,3"),
        ({"0,2-3": serving(CONSENSUS), "1": recv(3, 99)}, "unmatched-receive", "1", "0,2-3"),
        ({"0-3": PROBE}, "unmatched-receive", "0-3", ""),
    ],
)
def test_a_loop_waits_for_what_it_tests_besides_its_probe(
    job: Job, kind: str, ranks: str, victims: str
) -> None:
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == (kind, ranks, victims)


def test_each_poll_may_end_the_loop() -> None:
    # Rank 3 may send what rank 0 probes for.
    job: Job = {"0": serving(SENDS), "1-2": BARRIER, "3": outside()}
    assert all(each.confidence == "cannot tell" for each in explained(job).verdicts)


def test_several_polls_are_polls_and_calls_of_threads_are_none() -> None:
    both = serving(CONSENSUS)
    assert Party(RankSet([0]), both).is_polling
    in_thread = replace(both.calls[1], thread="2")
    assert not Party(RankSet([0]), status(both.calls[0], in_thread)).is_polling


def test_a_rank_inside_a_reduction_keeps_those_that_have_not_left_it() -> None:
    reduction: MpiCall = call("MPI_Allreduce", count=4, datatype="MPI_INT")
    inside = replace(outside(loop="spins"), callback_of=reduction)
    job: Job = {"0,2": BARRIER, "1": inside, "3": status(reduction)}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == (
        "missing-from-collective",
        "1",
        "0,2-3",
    )
    assert "computes in a function that MPI_Allreduce has called" in found.text
    # Without it, the calls of the others differ.
    job = {"0,2": BARRIER, "1": outside(loop="spins"), "3": status(reduction)}
    assert "different-collectives" in [each.kind for each in explained(job).verdicts]


def test_a_loop_that_reads_a_window_may_be_stopped_in_the_wait_for_its_read() -> None:
    assert is_one_sided(waits("MPI_Wait", "all", request("rma", None)))
    assert not is_one_sided(waits("MPI_Wait", "all", request("recv", 1)))
    assert not is_one_sided(waits("MPI_Test", "all", request("rma", None)))
    assert is_one_sided(win_call("MPI_Rget", dest=1)) and not is_one_sided(BARRIER)


def test_a_rank_that_tests_its_window_waits_for_the_other_side() -> None:
    window = Group(name="3", members="0-3")
    tested = polls("MPI_Win_test", "test", window=window, communicator=None)
    (found,) = explained({"0": tested, "1-3": BARRIER}).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == ("unmatched-rma", "0", "1-3")
    assert found.confidence == "likely"
    assert "a rank that does not call MPI_Win_complete" in found.text


@pytest.mark.parametrize(("waiting", "cause"), [("1-3", "0"), ("1,3", "1,3")])
def test_the_only_rank_that_does_not_wait_for_a_lock_holds_it(waiting: str, cause: str) -> None:
    window = Group(name="3", members="0-3")
    locks = in_call("MPI_Win_lock", "rma", window=window, dest=2, communicator=None)
    rest = str(RankSet.parse("0-3") - RankSet.parse(waiting))
    (found,) = explained({waiting: locks, rest: BARRIER}).verdicts
    assert (found.kind, str(found.ranks)) == ("unmatched-rma", cause)
