"""Verdicts about ranks outside MPI: slow until a proof says that they never come."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pgdb.frontend.analysis.why.parties import is_read
from pgdb.frontend.analysis.why.waiting import NO_WATCH, Watch
from pgdb.mpi_calls import CallSite, ChildWork, MpiCallStatus
from pgdb.ranks import RankSet
from tests.support.late_ranks import LATE
from tests.support.why_calls import outside, recv, request, waits, win_call
from tests.support.why_jobs import ALL, BARRIER, FREE, READ, WATCHED, Job, explained


@pytest.mark.parametrize("name", LATE)
def test_confidence_says_what_is_proven(name: str) -> None:
    status, confidence, decides = LATE[name]
    (found,) = explained({"0-2": BARRIER, "3": status}).verdicts
    assert (found.kind, str(found.ranks)) == ("missing-from-collective", "3")
    assert found.confidence == confidence
    assert decides in found.decides
    assert bool(found.decides) == (confidence != "certain")


@pytest.mark.parametrize("name", LATE)
def test_nothing_is_sure_where_somebody_moved_or_nobody_ran(name: str) -> None:
    job: Job = {"0-2": BARRIER, "3": LATE[name][0]}
    moved = Watch(still=ALL - RankSet([3]), seconds=1.0)
    for watch in (NO_WATCH, moved):
        (found,) = explained(job, watch).verdicts
        assert found.confidence == "cannot tell" and found.decides


@pytest.mark.parametrize("status", [outside(loop="spins"), outside("io")])
def test_another_rank_at_work_may_end_the_wait(status: MpiCallStatus) -> None:
    job: Job = {"0-1": BARRIER, "2": outside(), "3": status}
    found = explained(job, WATCHED).verdicts
    assert all(each.confidence == "cannot tell" for each in found)
    assert any("another rank is at work" in each.decides for each in found)


def test_the_first_line_names_the_loop_and_the_sleep() -> None:
    (found,) = explained({"0-2": BARRIER, "3": outside(loop="no way out")}).verdicts
    assert (
        "rank 3, which computes, in a loop that has no way out, in work at ring.c:99" in found.text
    )
    (found,) = explained({"0": recv(3), "1-3": outside("sleeping", sleeps_s=86400)}).verdicts
    assert "rank 3, which sleeps for 24 h or longer, in work at ring.c:99" in found.text
    (found,) = explained({"0-1": BARRIER, "2-3": outside("sleeping", sleeps_s=86400)}).verdicts
    assert "ranks 2-3, which sleep for 24 h or longer" in found.text


def test_a_rank_in_a_system_call_is_shown_with_its_object_and_its_limits() -> None:
    reading = replace(outside("io"), inside="read", waits_on="a pipe", is_confined=True)
    (found,) = explained({"0-2": BARRIER, "3": reading}).verdicts
    assert (
        "rank 3, which does input or output in read on a pipe, under strict seccomp, in which it "
        "is killed at any system call but read, write and exit, in work at ring.c:99"
    ) in found.text


def test_a_rank_that_waits_for_its_child_is_shown_with_the_childs_place() -> None:
    place = CallSite(function="convert", file="/src/pool.py", line=9)
    frames = ("convert", "Event.wait")
    child = ChildWork("python3", 1, "", "thread", "threading.Event.wait", place, frames)
    idle = ChildWork("python3", 3, "idle")
    waiting = replace(outside("io"), inside="multiprocessing.pool.Pool.map", children=(child, idle))
    (found,) = explained({"0-2": BARRIER, "3": waiting}).verdicts
    assert (
        "rank 3, which waits for another process in multiprocessing.pool.Pool.map, in work at "
        "ring.c:99; one child process waits for another thread of its own in threading.Event.wait, "
        "in convert at pool.py:9; 3 child processes wait for a job"
    ) in found.text
    assert "[3] has a child process in convert > Event.wait" in found.evidence


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (ChildWork("solver", activity="sleeping"), "its child process (solver) sleeps"),
        (ChildWork("solver", 2, activity="sleeping"), "2 child processes (solver) sleep"),
        (ChildWork("solver"), "its child process (solver) runs"),
        (
            ChildWork("solver", state="stopped"),
            "its child process (solver) is stopped by a signal",
        ),
        (ChildWork("solver", activity="exiting"), "its child process (solver) has ended"),
        (ChildWork("python3", state="idle"), "its child process waits for a job"),
    ],
)
def test_a_child_without_a_place_is_shown_with_its_program(work: ChildWork, text: str) -> None:
    waiting = replace(outside("io"), inside="waitpid", children=(work,))
    (found,) = explained({"0-2": BARRIER, "3": waiting}).verdicts
    assert f"waits for a child process in waitpid, in work at ring.c:99; {text}" in found.text


def test_a_rank_that_polls_for_another_one_is_a_victim() -> None:
    polls = waits("MPI_Test", "all", request("receive", 3, complete=False))
    (found,) = explained({"0-1": BARRIER, "2": polls, "3": outside("deadlock")}).verdicts
    assert (str(found.ranks), str(found.victims), found.confidence) == ("3", "0-2", "certain")


@pytest.mark.parametrize(
    ("function", "operation", "displacement", "is_reading"),
    [
        ("MPI_Get", None, 3, True),
        ("MPI_Compare_and_swap", None, 0, True),
        ("MPI_Get_accumulate", "MPI_NO_OP", 0, True),
        ("MPI_Fetch_and_op", "MPI_SUM", 0, False),  # a counter of tasks
        ("MPI_Get", None, None, False),  # perhaps one element after the other
        ("MPI_Put", None, 0, False),
    ],
)
def test_a_read_leaves_one_known_place_as_it_is(
    function: str, operation: str | None, displacement: int | None, is_reading: bool
) -> None:
    made = win_call(function, dest=1, operation=operation, displacement=displacement)
    assert is_read(made) is is_reading


def test_a_flag_that_a_working_rank_may_set_is_no_hang() -> None:
    job: Job = {"0": replace(READ, loop="spins"), "1": outside(), "2-3": FREE}
    assert all(each.confidence == "cannot tell" for each in explained(job).verdicts)
    (found,) = explained({"0": replace(READ, loop="spins"), "1-3": FREE}).verdicts
    assert "MPI_Fetch_and_op to 1 at 0" in found.text and "again and again" in found.text
    assert "a longer watch" in found.decides
