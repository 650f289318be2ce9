"""Circles of ranks that wait for messages of each other, and sends whose receivers are unknown."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.mpi_calls import MpiCallStatus
from tests.support.why_calls import outside, recv, request, send, waits
from tests.support.why_jobs import BARRIER, Job, explained, unfinished


def from_all_but(rank: int, count: int) -> MpiCallStatus:
    peers = [each for each in range(count) if each != rank]
    return waits("MPI_Waitall", "all", *(unfinished("recv", each) for each in peers))


def test_all_ranks_that_wait_for_each_other_are_the_cause() -> None:
    """In a circle of two that a third one waits for, and that waits for it, nobody is a victim."""
    job: Job = {str(rank): from_all_but(rank, 3) for rank in range(3)}
    found = explained({**job, "3": BARRIER}).verdicts
    first = found[0]
    assert (first.kind, str(first.ranks), str(first.victims)) == ("cycle", "0-2", "3")
    assert first.text.startswith("ranks 0-2 wait for each other")
    assert "one circle of several" in first.text


def test_a_rank_that_only_waits_for_a_circle_is_a_victim() -> None:
    job: Job = {"0": recv(1), "1": recv(0), "2": from_all_but(2, 3), "3": BARRIER}
    first = explained(job).verdicts[0]
    assert (first.kind, str(first.ranks), str(first.victims)) == ("cycle", "0-1", "2-3")


def to_somebody() -> MpiCallStatus:
    return waits("MPI_Wait", "all", unfinished("send", None))


def test_ranks_that_all_wait_for_receivers_send_head_to_head() -> None:
    """MPICH does not keep the receivers of sends, and they do not matter here."""
    job: Job = {"0-2": to_somebody(), "3": send(0)}
    first = explained(job).verdicts[0]
    assert (first.kind, str(first.ranks), str(first.victims)) == ("head-to-head-sends", "0-3", "")
    assert first.confidence == "likely"
    assert "none of them waits in a receive" in first.text


def test_a_receive_among_unknown_sends_leaves_the_cause_open() -> None:
    some = replace(request("recv", 1, complete=False), peer=None)
    job: Job = {"0-2": to_somebody(), "3": waits("MPI_Wait", "all", some)}
    found = explained(job).verdicts
    assert [each.kind for each in found] == ["unknown"]


def test_a_rank_at_work_may_receive_what_others_send() -> None:
    job: Job = {"0-2": to_somebody(), "3": outside()}
    found = explained(job).verdicts
    assert "head-to-head-sends" not in [each.kind for each in found]
