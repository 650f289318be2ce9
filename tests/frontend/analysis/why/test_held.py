"""Verdicts about jobs in which rank 3, or another one, is held: it does not run in the watch."""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.frontend.analysis.why.explain import Explanation, explain
from pgdb.frontend.analysis.why.parties import Elsewhere
from pgdb.frontend.analysis.why.waiting import NO_WATCH, Watch
from pgdb.ranks import RankSet
from tests.support.why_calls import in_call, outside, recv, send
from tests.support.why_jobs import ALL, BARRIER, FINALIZE, Job, classes

ALLREDUCE = in_call("MPI_Allreduce")
THIRD = RankSet([3])


def explained(
    job: Job,
    held: RankSet = THIRD,
    *elsewhere: Elsewhere,
    moved: RankSet | None = None,
    watch: Watch | None = None,
) -> Explanation:
    moved = moved if moved is not None else RankSet()
    ran = Watch(still=ALL - held - moved, moved=moved, seconds=1.0)
    return explain(classes(job), elsewhere, ran if watch is None else watch, held)


def test_a_rank_held_in_finalize_is_the_cause() -> None:
    (found,) = explained({"0-3": FINALIZE}).verdicts
    assert (str(found.ranks), str(found.victims), found.confidence) == ("3", "0-2", "likely")
    assert found.text.startswith("ranks 0-2 wait in MPI_Finalize")
    assert "for rank 3, which is held in MPI_Finalize" in found.text
    assert found.text.endswith("; 'release 3' lets it run again")
    assert found.step.commands == ("release 3", "why")


def test_members_held_in_a_collective_call_are_the_cause() -> None:
    """They may be at another place, so that their calls are not equal."""
    elsewhere = replace(ALLREDUCE, note="another place")
    for job in ({"0-3": ALLREDUCE}, {"0-1": ALLREDUCE, "2-3": elsewhere}):
        (found,) = explained(job, RankSet([2, 3])).verdicts
        assert (str(found.ranks), str(found.victims)) == ("2-3", "0-1")
        assert "which are held in MPI_Allreduce" in found.text
        assert "'release 2-3' lets them run again" in found.text
        assert "all members are there" not in found.text


def test_a_message_of_a_held_rank_does_not_come() -> None:
    (found,) = explained({"0": recv(3), "3": send(0), "1-2": outside()}).verdicts
    assert (str(found.ranks), str(found.victims)) == ("3", "0")


def test_nothing_is_likely_if_no_rank_ran_or_other_calls_returned() -> None:
    (looked_at,) = explained({"0-3": FINALIZE}, watch=NO_WATCH).verdicts
    (others_moved,) = explained({"0-3": ALLREDUCE}, moved=RankSet([0])).verdicts
    assert str(others_moved.victims) == "1-2"
    assert looked_at.confidence == others_moved.confidence == "cannot tell"


def test_a_call_that_returned_waits_for_no_held_rank() -> None:
    found = explained({"0-2": outside(), "3": ALLREDUCE}, moved=RankSet([0, 1, 2]))
    assert found.verdicts == ()
    assert found.summary == (
        "the calls of ranks 0-2 returned when the ranks ran; whether rank 3 hangs is unknown: it "
        "is held, and did not run; 'release 3' lets it run again"
    )


def test_no_rank_that_is_held_is_said_to_progress() -> None:
    found = explained({"0-3": BARRIER}, ALL, watch=NO_WATCH)
    assert found.verdicts == ()
    assert found.summary.startswith("whether ranks 0-3 hang is unknown: they are held")
    assert "can progress" not in found.summary


def test_a_held_rank_in_a_cycle_leaves_the_cycle_unknown() -> None:
    (found,) = explained({"0": recv(3), "3": recv(0), "1-2": outside()}).verdicts
    assert (found.kind, found.confidence) == ("cycle", "cannot tell")
    assert found.step.commands == ("release 3", "why")
    assert "rank 3 is held, and did not run" in found.decides


def test_the_way_out_is_named_for_a_rank_that_is_held_outside_mpi() -> None:
    stopped = Elsewhere(THIRD, "stopped at breakpoint 1 and held")
    (found,) = explained({"0-2": BARRIER, "3": outside()}, THIRD, stopped).verdicts
    assert (found.kind, found.confidence) == ("missing-from-collective", "certain")
    assert "rank 3, which is stopped at breakpoint 1 and held" in found.text
    assert found.text.endswith("; 'release 3' lets it run again")


def test_a_rank_that_is_not_held_keeps_its_verdict() -> None:
    (found,) = explained({"0": recv(1), "1": recv(0), "2": outside(), "3": outside()}).verdicts
    assert (found.kind, found.confidence) == ("cycle", "certain")
    assert "release" not in found.text
