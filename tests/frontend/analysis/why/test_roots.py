"""A rank that has left a broadcast without the part that another rank sends it."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.mpi_calls import ArrivedMessage, MpiCallStatus
from tests.support.why_calls import WORLD, in_call, recv
from tests.support.why_jobs import BARRIER, Job, explained


def with_part(status: MpiCallStatus, source: int) -> MpiCallStatus:
    return replace(status, arrived=(ArrivedMessage(source, None, WORLD, function="MPI_Bcast"),))


def broadcast(root: int) -> MpiCallStatus:
    return in_call("MPI_Bcast", root=root)


def test_the_rank_that_did_not_take_its_part_is_the_cause() -> None:
    job: Job = {"0,3": BARRIER, "1": broadcast(0), "2": with_part(BARRIER, 1)}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == ("different-roots", "2", "0-1,3")
    assert found.confidence == "likely"
    assert "rank 1 is in MPI_Bcast with root 0" in found.text
    assert "passes data on to rank 2" in found.text


def test_a_rank_in_the_call_with_the_other_root_is_a_cause_as_well() -> None:
    job: Job = {"0": BARRIER, "1": broadcast(0), "2": with_part(BARRIER, 1), "3": broadcast(2)}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == ("different-roots", "2-3", "0-1")
    assert found.text.endswith(
        "; rank 3 is in MPI_Bcast with root 2 in MPI_COMM_WORLD (main at ring.c:12)"
    )


def test_a_root_that_nobody_hears_is_in_another_call() -> None:
    job: Job = {"0": broadcast(0), "1": with_part(BARRIER, 0), "2-3": BARRIER}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks)) == ("different-collectives", "0")


def test_a_sender_with_an_unusual_root_is_the_cause_itself() -> None:
    job: Job = {"1-2": BARRIER, "3": broadcast(1), "0": with_part(BARRIER, 3)}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks)) == ("different-collectives", "3")


def test_a_part_for_a_rank_that_is_in_the_same_call_is_in_flight() -> None:
    job: Job = {"0,3": BARRIER, "1": broadcast(0), "2": with_part(broadcast(0), 1)}
    (found,) = explained(job).verdicts
    assert found.kind == "different-collectives"


def gathers(awaits: str | None = None, root: int = 0) -> MpiCallStatus:
    return in_call("MPI_Gather", root=root, awaits=awaits)


def test_the_rank_from_which_the_root_still_receives_is_the_cause() -> None:
    (found,) = explained({"0": gathers("2"), "1-3": BARRIER}).verdicts
    assert (found.kind, str(found.ranks), str(found.victims), found.confidence) == (
        "missing-from-collective",
        "2",
        "0-1,3",
        "likely",
    )
    assert "for the part of rank 2, but rank 2 is in MPI_Barrier" in found.text


def test_a_rank_that_waits_for_a_message_has_not_left_the_call_out() -> None:
    (found,) = explained({"0": gathers("2"), "1": BARRIER, "2": recv(0, tag=9)}).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == ("unmatched-receive", "2", "0-1")


def test_the_end_of_a_chain_of_receives_is_the_cause() -> None:
    job: Job = {"0": gathers("1"), "1": gathers("3"), "2-3": BARRIER}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == (
        "missing-from-collective",
        "3",
        "0-2",
    )


def test_a_rank_in_the_call_with_another_root_is_no_matter_of_parts() -> None:
    job: Job = {"0": gathers("2"), "1": gathers("2", root=1), "2-3": BARRIER}
    (found,) = explained(job).verdicts
    assert found.kind == "different-roots"


def test_a_rank_that_has_left_without_its_part_is_in_finalize() -> None:
    job: Job = {"0": gathers("2"), "1-3": in_call("MPI_Finalize", "finalize", communicator=None)}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == ("rank-left", "2", "0-1,3")


def test_a_root_alone_may_be_the_only_one_that_makes_the_call() -> None:
    """The root receives from the first rank in line, whichever rank is missing."""
    (found,) = explained({"0": gathers("1"), "1-3": BARRIER}).verdicts
    assert (str(found.ranks), found.confidence) == ("1", "cannot tell")
    assert "the root may be the only rank" in found.decides


def test_a_part_of_a_rank_in_the_same_call_is_in_flight() -> None:
    (found,) = explained({"0": gathers("3"), "1-3": gathers()}).verdicts
    assert (found.kind, found.confidence) == ("no-progress", "cannot tell")


def test_no_receive_is_compared_with_a_part() -> None:
    job: Job = {
        "0": with_part(in_call("MPI_Recv", "recv", source=1, tag=1), 1),
        "1-3": BARRIER,
    }
    (found,) = explained(job).verdicts
    assert "has tag" not in found.text
    assert "from 1 in MPI_Bcast in MPI_COMM_WORLD" in " ".join(found.evidence)


def test_of_two_roots_the_first_rank_is_the_usual_one() -> None:
    job: Job = {
        "0": in_call("MPI_Scatter", root=0),
        "1-2": BARRIER,
        "3": in_call("MPI_Scatter", root=3),
    }
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == ("different-roots", "3", "0-2")
    assert found.confidence == "likely" and "the first rank as root" in found.decides
    # Neither is the usual one.
    job["0"] = in_call("MPI_Scatter", root=1)
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks)) == ("different-roots", "0,3")


def counted(status: MpiCallStatus, count: int) -> MpiCallStatus:
    (made,) = status.calls
    return replace(status, calls=(replace(made, communicator=replace(WORLD, collectives=count)),))


def test_the_counts_of_the_recorder_decide_between_the_root_and_the_first_in_line() -> None:
    """Without them, a rank that has left the call out and one that named another root are alike."""
    alone = counted(gathers("0", root=1), 5)
    (found,) = explained({"0,2-3": counted(BARRIER, 6), "1": alone}).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == ("different-roots", "1", "0,2-3")
    assert found.confidence == "likely" and "rank 0 has made this call" in found.text
    job: Job = {"0": counted(BARRIER, 5), "2-3": counted(BARRIER, 6), "1": alone}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks)) == ("missing-from-collective", "0")
    assert found.confidence == "likely" and found.text.endswith("rank 0 has left the call out")
    (found,) = explained({"0,2-3": BARRIER, "1": gathers("0", root=1)}).verdicts
    assert found.confidence == "cannot tell"


def part_from(status: MpiCallStatus, source: int, function: str) -> MpiCallStatus:
    return replace(status, arrived=(ArrivedMessage(source, None, WORLD, function=function),))


def of_root(awaits: str, came: str | None) -> MpiCallStatus:
    return in_call("MPI_Gather", root=0, awaits=awaits, came=came)


def test_the_part_of_another_rank_shows_that_the_first_in_line_has_left_the_call_out() -> None:
    job: Job = {"0": of_root("1", "2"), "1-3": BARRIER}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), str(found.victims), found.confidence) == (
        "missing-from-collective",
        "1",
        "0,2-3",
        "likely",
    )
    # It would have had to hand that part on.
    handing: Job = {"0": gathers("1"), "1": part_from(BARRIER, 3, "MPI_Gather"), "2-3": BARRIER}
    (found,) = explained(handing).verdicts
    assert (str(found.ranks), found.confidence) == ("1", "likely")


def test_a_root_to_which_nobody_has_sent_is_the_only_one_in_the_call() -> None:
    (found,) = explained({"0": of_root("1", ""), "1-3": BARRIER}).verdicts
    assert (found.kind, str(found.ranks), str(found.victims), found.confidence) == (
        "different-collectives",
        "0",
        "1-3",
        "likely",
    )
    assert "no other rank has sent its part" in found.text
    finalize = in_call("MPI_Finalize", "finalize", communicator=None)
    (found,) = explained({"0": of_root("1", ""), "1-3": finalize}).verdicts
    assert (found.kind, str(found.ranks)) == ("rank-left", "1-3")


def test_ranks_that_make_a_call_alone_wait_for_the_part_of_nobody() -> None:
    job: Job = {"0": of_root("1", ""), "1": gathers("3"), "2-3": BARRIER}
    (found,) = explained(job).verdicts
    # Two of four are no minority.
    assert (found.kind, str(found.ranks)) == ("different-collectives", "0-3")


def test_a_root_in_another_call_has_not_left_this_one() -> None:
    other = in_call("MPI_Allreduce", operation="MPI_SUM")
    (found,) = explained({"0-1,3": other, "2": gathers("3")}).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == (
        "different-collectives",
        "2",
        "0-1,3",
    )


def test_a_root_alone_whose_receives_are_unknown_is_no_cause() -> None:
    (found,) = explained({"0": gathers(), "1-3": BARRIER}).verdicts
    assert (found.kind, found.confidence) == ("different-collectives", "cannot tell")


def scans(awaits: str) -> MpiCallStatus:
    return in_call("MPI_Scan", awaits=awaits)


def test_a_rank_that_leaves_a_scan_out_is_waited_for_by_those_behind() -> None:
    (found,) = explained({"0-1": BARRIER, "2": scans("1"), "3": scans("2")}).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == (
        "missing-from-collective",
        "1",
        "0,2-3",
    )
    assert found.text.endswith("rank 1 has left the call out")
    # The last one may be the only one that makes the call.
    (found,) = explained({"0-2": BARRIER, "3": scans("2")}).verdicts
    assert (str(found.ranks), found.confidence) == ("2", "cannot tell")
    job: Job = {"0-1": BARRIER, "2": part_from(BARRIER, 1, "MPI_Scan"), "3": scans("2")}
    (found,) = explained(job).verdicts
    assert (str(found.ranks), found.confidence) == ("2", "likely")


def test_the_counts_of_the_recorder_show_a_root_that_makes_the_call_alone() -> None:
    job: Job = {"0": counted(gathers("1"), 5), "1-3": counted(BARRIER, 5)}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks), str(found.victims)) == (
        "different-collectives",
        "0",
        "1-3",
    )
    job = {"0": counted(gathers("1"), 5), "1": counted(BARRIER, 5), "2-3": counted(BARRIER, 6)}
    (found,) = explained(job).verdicts
    assert (found.kind, str(found.ranks)) == ("missing-from-collective", "1")
