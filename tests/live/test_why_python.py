"""The reason why ranks of mpi4py wait, with the lines of Python."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pgdb
from pgdb.backend.python import reader
from pgdb.mpi_calls import CallSite, MpiCallStatus
from tests.support.processes import kill_all, processes_with, wait_until
from tests.support.programs import ROOT, Mpi

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.any_mpi,
    pytest.mark.skipif(not reader.program(), reason="py-spy is not installed"),
]
PROGRAM = ROOT / "tests" / "programs" / "python_waits.py"
HOLDER = ROOT / "tests" / "programs" / "python_holder.py"
CROSSED = ROOT / "tests" / "programs" / "python_crossed_locks.py"
LEAVES = ROOT / "tests" / "programs" / "python_leaves.py"
HEALTHY = ROOT / "tests" / "why" / "py_healthy_farm.py"
RANKS = 3
LOOKS = 4


def line_of(text: str, program: Path = PROGRAM) -> int:
    lines = program.read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.strip().startswith(text))


@contextmanager
def waiting_job(mpi: Mpi, program: Path = PROGRAM, *words: str) -> Iterator[int]:
    """Run the program until all ranks have said that they are ready; yield the launcher's pid."""
    line = mpi.line(RANKS, sys.executable, str(program), *words)
    mark = f"PGDB_WAITING_JOB={uuid.uuid4().hex}"
    name, _, value = mark.partition("=")
    job = subprocess.Popen(
        line, stdout=subprocess.PIPE, env={**os.environ, name: value}, start_new_session=True
    )
    try:
        assert job.stdout is not None
        # Python without buffers writes a line in parts, between which other ranks write.
        written = b""
        while written.count(b"ready") < RANKS:
            line_of_ranks = job.stdout.readline()
            assert line_of_ranks, f"the job has ended after {written!r}"
            written += line_of_ranks
        yield job.pid
    finally:
        kill_all(lambda: processes_with(mark), "the job")
        job.communicate()


def test_a_call_of_mpi4py_stands_at_its_line_of_python(mpi: Mpi) -> None:
    with waiting_job(mpi) as pid, pgdb.attach(pid) as session:

        def is_in_calls() -> bool:
            session.continue_(wait=False)
            session.interrupt()
            found = [each.record for each in session.mpi_calls()]
            return all(
                isinstance(each, MpiCallStatus) and each.state == "in_call" for each in found
            )

        wait_until(is_in_calls, "all ranks are in calls of MPI")
        explained = session.why()
        (verdict,) = explained.verdicts
        assert verdict.kind == "unmatched-receive" and verdict.ranks == pgdb.RankSet([2]), explained
        status = session.mpi_calls().for_rank(2)
        assert isinstance(status, MpiCallStatus) and isinstance(status.where, CallSite)
        assert (status.where.function, status.where.line) == ("collect", line_of("WORLD.recv"))


def test_a_rank_that_needs_a_lock_has_the_wait_of_the_thread_that_holds_it(mpi: Mpi) -> None:
    with waiting_job(mpi, HOLDER) as pid, pgdb.attach(pid) as session:
        found: list[MpiCallStatus] = []

        def is_at_the_holder() -> bool:
            session.continue_(wait=False)
            session.interrupt()
            status = session.mpi_calls().for_rank(2)
            found[:] = [status] if isinstance(status, MpiCallStatus) else []
            return bool(found) and found[0].inside == "queue.Queue.get"

        wait_until(is_at_the_holder, "rank 2 needs the lock")
        (status,) = found
        assert (status.activity, bool(status.thread)) == ("thread", True)
        assert isinstance(status.where, CallSite)
        assert (status.where.function, status.where.line) == ("save", line_of("WORK.get", HOLDER))
        (verdict,) = session.why().verdicts
    assert verdict.kind == "missing-from-collective" and verdict.ranks == pgdb.RankSet([2])
    assert "waits for another thread of its own in queue.Queue.get in thread" in verdict.text


@pytest.mark.parametrize("kind", ["Lock", "RLock"])
def test_two_threads_with_the_locks_of_each_other_are_a_deadlock_of_threads(
    mpi: Mpi, kind: str
) -> None:
    with waiting_job(mpi, CROSSED, kind) as pid, pgdb.attach(pid) as session:
        found: list[MpiCallStatus] = []

        def is_in_deadlock() -> bool:
            session.continue_(wait=False)
            session.interrupt()
            status = session.mpi_calls().for_rank(1)
            found[:] = [status] if isinstance(status, MpiCallStatus) else []
            return bool(found) and found[0].activity == "deadlock"

        wait_until(is_in_deadlock, "both threads of rank 1 wait")
        (status,) = found
        assert status.thread and isinstance(status.where, CallSite)
        assert (status.where.function, status.where.line) == (
            "work",
            line_of("with SECOND", CROSSED),
        )
        (verdict,) = session.why().verdicts
    assert verdict.kind == "missing-from-collective" and verdict.ranks == pgdb.RankSet([1])
    assert "for rank 1, which is in a deadlock of threads in thread" in verdict.text


def test_a_rank_that_has_left_python_has_no_place_in_the_interpreter(mpi: Mpi) -> None:
    with waiting_job(mpi, LEAVES) as pid, pgdb.attach(pid) as session:
        found: list[MpiCallStatus] = []

        def has_left() -> bool:
            session.continue_(wait=False)
            session.interrupt()
            status = session.mpi_calls().for_rank(1)
            found[:] = [status] if isinstance(status, MpiCallStatus) else []
            return bool(found) and [each.function for each in found[0].calls] == ["MPI_Finalize"]

        wait_until(has_left, "rank 1 is in MPI_Finalize")
        assert found[0].where is None
        # Finalize is called by mpi4py, whose code has no frame with a name.
        (only,) = session.why(watch_s=0.5).verdicts
        assert (only.kind, str(only.ranks), str(only.victims)) == ("rank-left", "1", "0,2")
        assert only.confidence == "certain"


def test_a_loop_of_python_is_healthy_wherever_it_is_stopped(mpi: Mpi) -> None:
    """The ranks come back to an equal call at one line again and again."""
    with waiting_job(mpi, HEALTHY) as pid, pgdb.attach(pid) as session:
        for _ in range(LOOKS):
            found = session.why(watch_s=0.5)
            sure = [each.text for each in found.verdicts if each.confidence != "cannot tell"]
            assert sure == []
            session.continue_(wait=False)
            session.interrupt()
