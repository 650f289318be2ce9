"""Attaching to running jobs, and what is left of it in them: nothing."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.conftest import Build, StartJob
from tests.support.processes import is_traced, wait_until
from tests.support.terminal import (
    DEADLINE_S,
    FrontEnd,
    assert_nothing_left,
    assert_untouched,
    ex,
    foreign_code,
    run_json,
    run_pgdb,
)

pytestmark = pytest.mark.mpi


def test_all_ranks_while_the_job_runs(build: Build, start_job: StartJob) -> None:
    program = build("ring.c")
    with start_job(4, program) as job:
        finished = run_json("attach", *ex("bt", "up 1", "info threads"), job.pid)
        assert finished.objects[0]["ranks"] == "0-3"
        assert finished.objects[0]["mode"] == "attach"
        stacks = finished.answer("backtrace")
        assert stacks["ranks"] == "0-3"
        for each in stacks["classes"]:
            functions = [frame["function"] for frame in each["record"]["frames"]]
            # Between two steps it is in neither for a moment.
            assert functions[-2:] in (["advance", "main"], ["main"]), functions
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
def test_some_ranks_only(build: Build, start_job: StartJob) -> None:
    with start_job(4, build("storm.c")) as job:
        before = {rank: job.ranks[rank] for rank in (0, 3)}
        finished = run_json(
            "attach", "--ranks", "1-2", *ex("p hit_count > 0", "proc 0 bt"), job.pid
        )
        assert finished.objects[0]["ranks"] == "1-2"
        assert finished.status == 1
        assert finished.of_type("error")[0]["message"] == "no rank 0; the job has 1-2"
        assert_untouched(before)
        assert_untouched(job.ranks)


@pytest.mark.parametrize("last", ["detach", "quit", "end of input"])
def test_no_breakpoint_is_left_in_the_ranks(build: Build, start_job: StartJob, last: str) -> None:
    with start_job(3, build("storm.c")) as job:
        commands = ["break hit", "c", "proc 1 c &", "proc 2 watch hit_count", "proc 2 c"]
        finished = run_json("attach", *ex(*commands, *([last] if " " not in last else [])), job.pid)
        assert finished.status == 0, finished.out
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
def test_a_detached_rank_progresses_while_the_rest_is_debugged(
    build: Build, start_job: StartJob
) -> None:
    with start_job(3, build("storm.c")) as job:
        finished = run_json(
            "attach", *ex("break hit", "c", "proc 1 detach", "c", "ranks", "proc 1 bt"), job.pid
        )
        answers = finished.answers("continue")
        assert [each["ranks"] for each in answers[0]["classes"]] == ["0-2"]
        assert answers[1]["classes"][0]["ranks"] == "0,2"
        assert_untouched(job.ranks)


def test_a_second_session_after_the_first(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("storm.c")) as job:
        for _ in range(2):
            finished = run_json("attach", *ex("break hit", "c"), job.pid)
            assert finished.status == 0
            assert [each["ranks"] for each in finished.answer("continue")["classes"]] == ["0-1"]
        assert_untouched(job.ranks)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_front_end_is_ended_while_breakpoints_are_set_and_ranks_run(
    build: Build, start_job: StartJob, how: signal.Signals
) -> None:
    # Nobody comes to `hit` with that condition: the breakpoint is in the code of running ranks.
    commands = ex("break hit if i < 0", "c &", "p 1", "wait")
    with start_job(3, build("storm.c")) as job:
        with FrontEnd(
            "attach", "--batch", "--json", "--grace", "2", *commands, job.pid,
            stdout=subprocess.PIPE,
        ) as front_end:  # fmt: skip
            front_end.wait_answered("print 1")
            wait_until(
                lambda: all(foreign_code(pid) for pid in job.ranks.values()),
                "the breakpoint is in the code of all ranks",
                DEADLINE_S,
            )
            assert all(is_traced(pid) for pid in job.ranks.values())
            front_end.send_signal(how)
            front_end.communicate(timeout=DEADLINE_S)
            assert_nothing_left(front_end.mark, grace_s=2.0)
        assert_untouched(job.ranks)


def test_the_job_ends_under_the_debugger(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("storm.c")) as job:
        # The program ends on an order: a number of steps might be over before we have attached.
        last = "set var main::iterations = hit_count + 100"
        finished = run_json("attach", *ex(last, "c", "bt"), job.pid)
        assert job.process.wait(DEADLINE_S) == 0
        ends = [each for line in finished.of_type("exit") for each in line["classes"]]
        assert {each["code"] for each in ends} == {0}
        assert sorted(each["ranks"] for each in ends) in (["0", "1"], ["0-1"])
        # Ranks that have ended answer as a GDB without a process does.
        (answer,) = finished.answer("backtrace")["classes"]
        assert (answer["ranks"], answer["record"]) == (
            "0-1",
            {"kind": "error", "message": "No stack."},
        )
        assert finished.status == 1


def test_without_mpi_in_the_program(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("nompi.c"), in_mpi=False) as job:
        finished = run_pgdb("attach", "--batch", *ex("bt"), job.pid)
        assert finished.status == 0
        assert "pause_step (step=" in finished.out
        assert_untouched(job.ranks)


def test_without_mpi_in_the_aggregators(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("storm.c")) as job:
        finished = run_json(
            "attach", "--wire-up", "direct", "--aggregators", 2, *ex("break hit", "c"), job.pid
        )
        assert finished.status == 0
        assert [each["ranks"] for each in finished.answer("continue")["classes"]] == ["0-1"]
        assert_untouched(job.ranks)
