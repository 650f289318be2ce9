"""Sessions of the Python API that end: what becomes of the job and of the session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pgdb
from pgdb.records import Stack
from tests.conftest import StartJob
from tests.support.processes import (
    is_alive,
    is_traced,
    kill_all,
    pids_of_run,
    status,
    wait_progress,
    wait_until,
)
from tests.support.programs import Mpi, Program

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 4
RUN_TIMEOUT_S = 120.0


def test_end_of_a_launch_kills_the_job(mpi: Mpi, ring: Program) -> None:
    with pgdb.launch(mpi.line(RANKS, ring)) as session:
        session.continue_(wait=False).check()
        assert len(pids_of_run(ring)) == RANKS
    wait_until(lambda: not pids_of_run(ring), "the ranks end")
    assert session.has_ended
    session.close()
    session.close(kill=True)
    with pytest.raises(pgdb.SessionEndedError):
        session.evaluate("1")
    with pytest.raises(pgdb.SessionEndedError):
        session.ranks("0")


def test_a_body_that_raises_ends_the_session(mpi: Mpi, ring: Program) -> None:
    with pytest.raises(ZeroDivisionError), pgdb.launch(mpi.line(RANKS, ring)):
        raise ZeroDivisionError
    wait_until(lambda: not pids_of_run(ring), "the ranks end")


def test_a_launch_that_fails(mpi: Mpi, tmp_path: Path) -> None:
    with pytest.raises(pgdb.PgdbError, match="no-such-program"):
        pgdb.launch(mpi.line(RANKS, tmp_path / "no-such-program"))
    with pytest.raises(pgdb.DiscoveryError):
        pgdb.attach(os.getpid())


def test_attach_leaves_the_job_running(ring: Program, start_job: StartJob) -> None:
    with start_job(RANKS, ring) as job:
        with pgdb.attach(job.pid, on_step=lambda step: None) as session:
            assert session.mode == "attach"
            assert not session.kills_at_close
            assert all(is_traced(pid) for pid in job.ranks.values())
            assert {each.rank: each.pid for each in session.table.processes} == job.ranks
            stack = session.backtrace().check().for_rank(2)
            assert isinstance(stack, Stack)
            assert stack.frames[-1].function == "main"
            session.break_at(ring.at("recv")).check()
            # The ranks were stopped anywhere: one can be a step ahead and wait for another.
            session.run("continue", timeout_s=RUN_TIMEOUT_S, settle_s=1.0)
            there = session.ranks("@bp1")
            assert there.set
            assert there.evaluate("rank").values == {rank: rank for rank in there.set}
        assert is_alive(job.pid)
        for pid in job.ranks.values():
            assert not is_traced(pid)
            wait_progress(pid)


def test_attach_to_some_ranks_and_a_body_that_raises(ring: Program, start_job: StartJob) -> None:
    with start_job(RANKS, ring) as job:
        with pytest.raises(ZeroDivisionError), pgdb.attach(job.pid, ranks="1-2") as session:
            assert str(session.set) == "1-2"
            assert [is_traced(pid) for pid in job.ranks.values()] == [False, True, True, False]
            raise ZeroDivisionError
        for pid in job.ranks.values():
            assert not is_traced(pid)
            wait_progress(pid)
        with pytest.raises(pgdb.RankSetError, match="no rank 4"):
            pgdb.attach(job.pid, ranks="4")


def test_detach_of_some_ranks(ring: Program, start_job: StartJob) -> None:
    with start_job(RANKS, ring) as job, pgdb.attach(job.pid) as session:
        session[0:2].detach().check()
        assert [is_traced(pid) for pid in job.ranks.values()] == [False, False, True, True]
        assert session.evaluate("1").missing.lost == session.parse_ranks("0-1")
        assert status(job.ranks[2], "State").startswith("t")


def test_a_launched_job_that_was_detached_runs_on(mpi: Mpi, ring: Program) -> None:
    with pgdb.launch(mpi.line(RANKS, ring), stdin=subprocess.DEVNULL) as session:
        session.detach().check()
        assert not session.kills_at_close
        ranks = pids_of_run(ring)
    try:
        assert len(ranks) == RANKS
        for pid in ranks:
            assert not is_traced(pid)
            wait_progress(pid)
    finally:
        # The keeper of its output ends with the job, which the check after each test looks at.
        kill_all(lambda: pids_of_run(ring), "the ranks")


LEFT_OPEN = """
import sys
import pgdb
session = pgdb.launch(sys.argv[2:]) if sys.argv[1] == "launch" else pgdb.attach(int(sys.argv[2]))
session.continue_(wait=False)
print(session.set, flush=True)
if sys.argv[1] == "raise":
    raise ZeroDivisionError
"""


def run_script(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LEFT_OPEN, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )


def test_a_launch_left_open_is_ended_with_python(mpi: Mpi, ring: Program) -> None:
    done = run_script("launch", *mpi.line(RANKS, ring))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0-3\n"
    assert "Traceback" not in done.stderr
    wait_until(lambda: not pids_of_run(ring), "the ranks end")


@pytest.mark.parametrize("how", ["attach", "raise"])
def test_an_attach_left_open_is_ended_with_python(
    how: str, ring: Program, start_job: StartJob
) -> None:
    with start_job(RANKS, ring) as job:
        done = run_script(how, str(job.pid))
        assert done.stdout == "0-3\n", done.stderr
        assert done.returncode == (1 if how == "raise" else 0)
        assert "atexit" not in done.stderr
        for pid in job.ranks.values():
            assert not is_traced(pid)
            wait_progress(pid)
