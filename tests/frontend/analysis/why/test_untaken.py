"""Messages that have come to ranks that wait for others: the verdict names both."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdb.frontend.analysis.why.verdict import Verdict
from pgdb.mpi_calls import ANY_SOURCE, ArrivedMessage, Communicator, MpiCallStatus, Request
from pgdb.ranks import RankSet
from tests.support.why_calls import WORLD, recv, request, send, waits
from tests.support.why_jobs import BARRIER, FINALIZE, Job, explained

OTHER = Communicator(name="other", members="0-3", identity="other")


def having(status: MpiCallStatus, *messages: tuple[int, int]) -> MpiCallStatus:
    """Return a status with messages of MPI_COMM_WORLD that have come: their sources and tags."""
    return replace(
        status, arrived=tuple(ArrivedMessage(source, tag, WORLD) for source, tag in messages)
    )


def only(job: Job) -> Verdict:
    (found,) = explained(job).verdicts
    return found


def test_a_message_with_another_tag_is_named() -> None:
    found = only({"0": having(recv(1, 8), (1, 7)), "1-3": BARRIER})
    assert (found.kind, str(found.ranks), str(found.victims)) == ("unmatched-receive", "0", "1-3")
    assert found.confidence == "likely" and "later receive" in found.decides
    assert "from rank 1 with tag 8" in found.text
    assert "the one that has come from rank 1 has tag 7; rank 1 is in MPI_Barrier" in found.text
    assert "no receive takes what has come from 1 with tag 7" in found.evidence[0]


def test_ranks_that_all_miss_a_message_are_no_mere_circle() -> None:
    job: Job = {str(n): having(recv((n + 1) % 4, 8), ((n + 1) % 4, 7)) for n in range(4)}
    found = only(job)
    assert (found.kind, str(found.ranks), str(found.victims)) == ("unmatched-receive", "0-3", "")
    assert "has tag 7, and ranks 1-3 wait likewise; so ranks 0-3 wait for each other" in found.text


def test_one_that_misses_a_message_is_the_cause_of_a_circle() -> None:
    job: Job = {"0": recv(1, 8), "1": having(recv(2, 8), (2, 9)), "2": recv(0, 8), "3": BARRIER}
    found = only(job)
    assert (found.kind, str(found.ranks), str(found.victims)) == ("unmatched-receive", "1", "0,2-3")


def test_a_receive_for_which_nothing_has_come_is_a_cause_beside_one_that_misses_a_message() -> None:
    found = only({"0": having(recv(1, 8), (1, 7)), "1,3": BARRIER, "2": recv(1, 9)})
    assert (found.kind, str(found.ranks), str(found.victims)) == ("unmatched-receive", "0,2", "1,3")
    assert "the one that has come from rank 1 has tag 7, and rank 2 waits in MPI_Recv" in found.text
    assert "for a message that nobody sends; rank 1 is in MPI_Barrier" in found.text


@pytest.mark.parametrize(("whole", "missing"), [(1, 2), (2, 1)])
def test_a_circle_beside_a_rank_that_misses_a_message_is_a_deadlock_of_its_own(
    whole: int, missing: int
) -> None:
    needs = [request("recv", each, 8, complete=False) for each in (whole, missing)]
    job: Job = {
        "0": waits("MPI_Waitall", "all", *needs),
        str(whole): recv(0, 8),
        str(missing): having(recv(0, 8), (0, 7)),
        "3": BARRIER,
    }
    found = only(job)
    assert (found.kind, found.ranks) == ("cycle", RankSet([0, whole]))
    assert found.victims == RankSet([missing, 3])


def test_a_request_that_misses_a_message_is_named() -> None:
    status = waits("MPI_Waitall", "all", request("recv", 1, 8, complete=False))
    found = only({"0": having(status, (1, 7)), "1-3": BARRIER})
    assert "the one that has come from rank 1 has tag 7" in found.text


def test_a_message_of_another_communicator_is_a_mixup() -> None:
    status = replace(recv(1, 8), arrived=(ArrivedMessage(1, 8, OTHER),))
    found = only({"0": status, "1-3": BARRIER})
    assert (found.kind, str(found.ranks)) == ("communicator-mixup", "0")
    assert "the one that has come from rank 1 with that tag is in other [0-3]" in found.text


def test_a_message_of_another_rank_is_mentioned_and_no_cause() -> None:
    found = only({"0": having(recv(1, 8), (2, 8)), "1-3": BARRIER})
    assert (found.kind, str(found.ranks), found.confidence) == ("unmatched-receive", "0", "certain")
    assert "one with that tag has come from rank 2" in found.text
    found = only({"0": having(recv(1, 8), (2, 8)), "1": recv(0, 8), "2-3": BARRIER})
    assert (found.kind, str(found.ranks)) == ("cycle", "0-1")
    assert "but one with that tag has come from rank 2" in found.text


@pytest.mark.parametrize("message", [(1, 8), (2, 9)])
def test_a_message_that_differs_in_none_or_in_two_properties_is_evidence_only(
    message: tuple[int, int],
) -> None:
    found = only({"0": having(recv(1, 8), message), "1-3": BARRIER})
    assert found.confidence == "certain" and "has come" not in found.text
    assert "what has come from" in found.evidence[0]


def test_a_receive_of_any_rank_misses_a_message_by_its_tag() -> None:
    found = only({"0": having(recv(ANY_SOURCE, 8), (3, 7)), "1-3": BARRIER})
    assert "from any rank with tag 8" in found.text
    assert "the one that has come from rank 3 has tag 7" in found.text


def test_a_sender_that_waits_is_named_before_a_message_that_has_come() -> None:
    found = only({"0": having(recv(1, 8), (1, 7)), "1": send(0, 9), "2-3": BARRIER})
    assert str(found.ranks) == "0-1" and "sends it one with tag 9" in found.text


def waiting_for(*requests: Request) -> MpiCallStatus:
    """Return a rank in MPI_Waitall, for some requests and a send whose receiver is unknown."""
    return waits("MPI_Waitall", "all", *requests, replace(request("send", None), tag=None))


def test_messages_that_have_come_are_the_sends_whose_receivers_are_unknown() -> None:
    job: Job = {
        "0": having(waiting_for(request("recv", 3, 103)), (3, 3)),
        "1": having(waits("MPI_Waitall", "all", request("recv", 0, 3)), (0, 103)),
        "2": waiting_for(request("recv", 1, 4)),
        "3": having(waiting_for(), (2, 4)),
    }
    found = only(job)
    assert (found.kind, found.confidence) == ("unmatched-receive", "likely")
    assert (str(found.ranks), str(found.victims)) == ("0,3", "1-2")
    assert "receivers of the sends follow from the messages" in found.decides
    evidence = " ".join(found.evidence)
    assert "for a send to 0 with tag 3" in evidence


def test_no_receiver_is_inferred_where_a_rank_lists_no_messages() -> None:
    job: Job = {
        "0": having(waiting_for(request("recv", 1, 5)), (1, 4)),
        "1": having(waiting_for(request("recv", 0, 5)), (0, 4)),
        "2-3": BARRIER,
    }
    found = explained(job)
    assert all("send to" not in line for each in found.verdicts for line in each.evidence)


def having_parts(status: MpiCallStatus, function: str, comm: Communicator) -> MpiCallStatus:
    return replace(status, arrived=(ArrivedMessage(0, None, comm, function),))


def test_a_rank_alone_in_a_call_that_has_not_taken_its_part_of_another_made_the_wrong_one() -> None:
    found = only({"0-1,3": FINALIZE, "2": having_parts(BARRIER, "MPI_Bcast", WORLD)})
    assert (found.kind, str(found.ranks)) == ("different-collectives", "2")
    assert (str(found.victims), found.confidence) == ("0-1,3", "likely")
    assert "rank 2 is in MPI_Barrier" in found.text
    assert "has not taken what has come to it in MPI_Bcast" in found.text


@pytest.mark.parametrize(
    "job",
    [
        # The part is of the call that the rank is in, or of a communicator that is another one.
        {"0-1,3": FINALIZE, "2": having_parts(BARRIER, "MPI_Barrier", WORLD)},
        {"0-1,3": FINALIZE, "2": having_parts(BARRIER, "MPI_Bcast", OTHER)},
        # As many have left as wait.
        {"0-1": having_parts(BARRIER, "MPI_Bcast", WORLD), "2-3": FINALIZE},
    ],
)
def test_parts_of_other_calls_do_not_excuse_ranks_that_have_left(job: Job) -> None:
    found = only(job)
    assert (found.kind, found.confidence) == ("rank-left", "certain")
