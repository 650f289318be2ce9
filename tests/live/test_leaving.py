"""The ends of a session: after each, nothing of ours is left, and the job is what it should be."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

import pgdb
from pgdb.ranks import RankSet
from tests.conftest import Build, StartJob, our_processes
from tests.support.processes import parent_of, programs_with, status, wait_until
from tests.support.programs import Mpi, Program
from tests.support.terminal import (
    DEADLINE_S,
    MARK,
    FrontEnd,
    assert_nothing_left,
    assert_untouched,
    children_with,
    end_marked,
    ex,
    foreign_code,
    marked,
    run_json,
    run_pgdb,
    wait_gone,
)

pytestmark = pytest.mark.mpi


def ranks_of(mark: str, program: Program) -> dict[int, int]:
    """Return the processes of a program with a mark, numbered in order."""
    return dict(enumerate(sorted(programs_with(f"{MARK}={mark}", program))))


def ours(mark: str) -> dict[int, str]:
    """Return the aggregators and the GDBs with a mark, and their command lines."""
    found = marked(mark)
    parts = ("pgdb.backend", "-i=mi3")
    return {pid: line for pid, line in found.items() if any(part in line for part in parts)}


@pytest.mark.parametrize("last", [(), ex("quit"), ex("kill"), ex("c &", "quit"), ex("c &")])
def test_the_end_after_launch_kills_the_job(mpi: Mpi, build: Build, last: tuple[str, ...]) -> None:
    # run_pgdb fails when anything is left, ranks included.
    finished = run_pgdb("launch", "--batch", *ex("break hit if i < 0"), *last,
                        *mpi.line(3, build("storm.c")))  # fmt: skip
    assert finished.status == 0, finished.out + finished.err


def test_a_keeper_that_was_stopped_keeps_nobody_waiting(mpi: Mpi, build: Build) -> None:
    line = mpi.line(2, build("storm.c"))
    with FrontEnd("launch", "--batch", *line, stdin=subprocess.PIPE) as front_end:

        def keepers() -> list[int]:
            return children_with(front_end.pid, front_end.mark, "keeper.py")

        wait_until(keepers, "it is there")
        (keeper,) = keepers()
        os.kill(keeper, signal.SIGSTOP)
        front_end.communicate(b"bt\nquit\n", timeout=DEADLINE_S)
        assert front_end.returncode == 0
        assert_nothing_left(front_end.mark)


def test_detach_after_launch_lets_the_job_run(mpi: Mpi, build: Build) -> None:
    program = build("storm.c")
    finished = run_pgdb(
        "launch", "--batch", *ex("break hit", "c", "detach"), *mpi.line(3, program), leaves=True
    )
    try:
        assert finished.status == 0, finished.out + finished.err
        ranks = ranks_of(finished.mark, program)
        assert len(ranks) == 3
        assert_untouched(ranks)
        wait_gone(lambda: ours(finished.mark))
    finally:
        end_marked(finished.mark)


@pytest.mark.any_mpi
def test_commands_behind_the_last_detach_are_reported_to_come_too_late(
    build: Build, start_job: StartJob
) -> None:
    with start_job(2, build("storm.c")) as job:
        late = run_pgdb("attach", "--batch", *ex("detach", "# why", "bt", "p 1", "quit"), job.pid)
        assert late.status == 1, late.out + late.err
        assert late.out.endswith("the last rank was detached; not carried out: 'bt' and 1 more\n")
        for last in ("quit", "# done", ""):
            well = run_pgdb("attach", "--batch", *ex("detach", last), job.pid)
            assert well.status == 0 and "not carried out" not in well.out + well.err
        reported = run_json("attach", *ex("detach", "bt"), job.pid)
        assert [each["command"] for each in reported.of_type("error")] == ["bt"]
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
def test_ranks_that_are_out_of_reach_are_neither_detached_nor_killed(
    build: Build, start_job: StartJob
) -> None:
    with start_job(3, build("storm.c")) as job:
        commands = ex("proc 1 detach", "proc 1 detach", "proc 1 kill", "proc 1-2 detach", "detach")
        finished = run_pgdb("attach", "--batch", *commands, job.pid)
        assert finished.status == 1, finished.out + finished.err
        shown = finished.out + finished.err
        gone = "[1] detached; 'reattach' attaches to it again"
        assert shown.count("[1] detached; they run on") == 1
        assert f"detach: {gone}" in shown and f"kill: {gone}" in shown
        assert f"[2] detached; they run on\n{gone}" in shown
        assert "[] " not in shown and "[0] detached; they run on" in shown
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
def test_a_rank_that_was_stopped_before_is_reported_to_be_stopped_again(
    build: Build, start_job: StartJob
) -> None:
    with start_job(3, build("storm.c")) as job:
        os.kill(job.ranks[1], signal.SIGSTOP)
        wait_until(lambda: status(job.ranks[1], "State").startswith("T"), "it is stopped")
        finished = run_pgdb("attach", "--batch", *ex("detach"), job.pid)
        assert "[0,2] detached; they run on\n" in finished.out, finished.out
        assert "[1] detached; stopped again, by the signal from before\n" in finished.out
        assert status(job.ranks[1], "State").startswith("T")
        os.kill(job.ranks[1], signal.SIGCONT)
        assert_untouched(job.ranks)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_the_front_end_of_a_launched_job_dies(mpi: Mpi, build: Build, how: signal.Signals) -> None:
    """SIGKILL leaves the job running free; after SIGTERM the front end kills the job as always."""
    program = build("storm.c")
    with FrontEnd(
        "launch", "--batch", "--json", "--grace", "2",
        *ex("break hit if i < 0", "c &", "p 1", "wait"), *mpi.line(2, program),
        stdout=subprocess.PIPE,
    ) as front_end:  # fmt: skip
        front_end.wait_answered("print 1")
        ranks = ranks_of(front_end.mark, program)
        assert len(ranks) == 2
        wait_until(
            lambda: all(map(foreign_code, ranks.values())), "the breakpoint is inserted", DEADLINE_S
        )
        front_end.send_signal(how)
        front_end.communicate(timeout=DEADLINE_S)
        if how != signal.SIGKILL:
            assert_nothing_left(front_end.mark)
            return
        wait_gone(lambda: ours(front_end.mark), grace_s=2.0)
        assert_untouched(ranks)


def test_the_launcher_of_the_aggregators_is_killed(build: Build, start_job: StartJob) -> None:
    with start_job(3, build("storm.c")) as job:
        with pgdb.attach(job.pid, aggregators=2, grace_s=2) as session:
            session.break_at("hit", condition="hit_count < 0").check()
            session.continue_(wait=False).check()
            launchers = [
                pid
                for pid, line in our_processes().items()
                if "pgdb.backend" in line and parent_of(pid) == os.getpid()
            ]
            assert len(launchers) == 1
            os.kill(launchers[0], signal.SIGKILL)
            # Under some launchers the aggregators outlive it; both are right, as long as the user
            # reads it.
            answer = session.evaluate("1", timeout_s=60)
            said = RankSet.union(each.ranks for each in answer.classes)
            assert said | answer.missing.ranks == session.set
        wait_gone(our_processes, grace_s=2.0)
        assert_untouched(job.ranks)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_front_end_is_ended_while_it_starts(
    mpi: Mpi, build: Build, how: signal.Signals
) -> None:
    """A half held job ends with the session, or, if that was killed, runs on."""
    line = mpi.line(2, build("storm.c"), "100")
    with FrontEnd("launch", "--batch", "--grace", "2", *line, stderr=subprocess.PIPE) as front_end:
        wait_until(
            lambda: any("hold.py" in each for each in marked(front_end.mark).values()),
            "a rank is held",
            DEADLINE_S,
        )
        front_end.send_signal(how)
        _, reported = front_end.communicate(timeout=DEADLINE_S)
        assert b"Traceback" not in reported, reported.decode()
        assert_nothing_left(front_end.mark, grace_s=2.0)
