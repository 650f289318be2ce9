"""Circles of ranks that wait for messages of each other, and sends whose receivers are unknown."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.frontend.analysis.why.waiting import Watch
from pgdb.mpi_calls import Communicator, MpiCallStatus
from pgdb.ranks import RankSet
from tests.support.why_calls import in_call, outside, recv, request, send, waits, win_call
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


FIVE = Communicator(name="MPI_COMM_WORLD", members="0-4")


def exchanges(dest: int, source: int) -> MpiCallStatus:
    return in_call(
        "MPI_Sendrecv",
        "sendrecv",
        dest=dest,
        source=source,
        tag=1,
        receive_tag=1,
        count=300000,
        communicator=FIVE,
    )


def test_a_part_of_an_exchange_that_fits_is_complete_between_ranks_that_do_not_move() -> None:
    """Rank 2 turns its direction round; a part that fits does not hide the one that does not."""
    job: Job = {str(rank): exchanges((rank + 1) % 5, (rank - 1) % 5) for rank in range(5)}
    job["2"] = exchanges(1, 3)
    first = explained(job, Watch(still=RankSet(range(5)), seconds=1.0)).verdicts[0]
    assert (first.kind, str(first.ranks), str(first.victims)) == ("cycle", "1-3", "0,4")
    # Without a watch the parts may be in flight.
    assert explained(job, Watch()).verdicts == ()


def test_a_rank_that_wants_a_lock_for_which_nobody_waits_is_a_victim() -> None:
    """The holder of the lock waits for a message of one of those that want it."""
    wants = win_call("MPI_Win_lock", dest=0)
    first = explained({"0": BARRIER, "1": recv(2), "2-3": wants}).verdicts[0]
    assert (first.kind, str(first.ranks), str(first.victims)) == ("cycle", "1-2", "0,3")
    assert "rank 1, which may hold what they need, waits for rank 2 in MPI_Recv" in first.text
