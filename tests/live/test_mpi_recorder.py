"""The recorder of MPI calls in real jobs: launched with it, and attached to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import pgdb
from pgdb.backend.gdb.rank_image import ProcessImage
from pgdb.backend.mpi_calls.recorder import read_recorded
from pgdb.mpi_calls import ANY_SOURCE, ANY_TAG, MpiCall, MpiCallStatus
from tests.conftest import Build
from tests.support.processes import kill_all, pids_of_run, wait_until
from tests.support.programs import Mpi, Program

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]
RANKS = 4
WAITS = ("MPI_Waitall", "MPI_Recv", "MPI_Bcast")


def calls_of(program: Program) -> dict[int, str]:
    """Return the function that each process of this run of the tests is in, by its number."""
    found = {}
    for pid in pids_of_run(program):
        recorded = read_recorded(ProcessImage(pid))
        calls = [] if recorded is None else list(recorded.calls.values())
        found[pid] = calls[0].function if calls else ""
    return found


def wait_waiting(program: Program, last: str) -> None:
    def are() -> bool:
        return sorted(calls_of(program).values()) == sorted((*WAITS, last))

    wait_until(are, f"the ranks of {program.path} wait in their calls")


def call_of(answer: pgdb.Answer, rank: int) -> MpiCall:
    status = answer.for_rank(rank)
    assert isinstance(status, MpiCallStatus) and status.call is not None, status
    return status.call


def check_common(answer: pgdb.Answer) -> None:
    """Check the calls that the programs in C and in Fortran have."""
    waitall, receive, broadcast = (call_of(answer, rank) for rank in range(3))
    assert waitall.waits_for == "all" and waitall.source_of("requests") == "recorder"
    first, second = waitall.requests
    assert first.communicator is not None and first.communicator.members == "0,2"
    assert (first.kind, first.peer, first.tag, first.count) == ("recv", 2, 7, 1)
    assert (second.peer, second.tag) == (ANY_SOURCE, ANY_TAG)
    assert receive.communicator is not None and receive.communicator.members == "1,3"
    assert (receive.source, receive.tag, receive.count) == (3, 5, 3)
    assert broadcast.communicator is not None
    assert broadcast.communicator.identity == first.communicator.identity != ""
    assert (broadcast.root, broadcast.count) == (0, 1)
    recorded = {each.field for each in receive.sources if each.source == "recorder"}
    assert {"function", "communicator", "source", "tag", "count", "datatype"} <= recorded


def test_calls_of_a_job_that_is_launched_with_the_recorder(mpi: Mpi, build: Build) -> None:
    program = build("recorded.c")
    with pgdb.launch(mpi.line(RANKS, program), mpi_record=True) as session:
        session.continue_(wait=False).check()
        wait_waiting(program, "MPI_Win_fence")
        session.interrupt().check()
        answer = session.mpi_calls()
        check_common(answer)
        assert call_of(answer, 1).datatype == "MPI_FLOAT"
        half = call_of(answer, 1).communicator
        assert half is not None and (half.name, half.collectives) == ("half", 6)
        status = session.ranks("1").recent_mpi_calls(6).for_rank(1)
        assert isinstance(status, MpiCallStatus)
        *sums, last = status.recent
        assert [each.call.function for each in sums] == ["MPI_Allreduce"] * 5
        groups = [each.call.communicator for each in sums]
        assert [each.collectives for each in groups if each] == [2, 3, 4, 5, 6]
        assert all(each.returned for each in sums) and not last.returned
        assert (last.call.function, last.call.source, last.call.tag) == ("MPI_Recv", 3, 5)
        fence = call_of(answer, 3)
        assert fence.window is not None and fence.window.members == "0-3"
        where = answer.for_rank(1)
        assert isinstance(where, MpiCallStatus) and where.where is not None
        assert where.where.line == program.line("receive")
        session.kill()


@pytest.mark.parametrize("source", ["recorded.f90", "recorded_old.f90"])
def test_calls_of_fortran(mpi: Mpi, build: Build, source: str) -> None:
    program = build(source)
    with pgdb.launch(mpi.line(RANKS, program), mpi_record=True) as session:
        session.continue_(wait=False).check()
        wait_waiting(program, "MPI_Barrier")
        session.interrupt().check()
        answer = session.mpi_calls()
        check_common(answer)
        assert call_of(answer, 1).datatype == "MPI_REAL"
        session.kill()


def test_the_environment_that_records_a_job_without_pgdb(mpi: Mpi, build: Build) -> None:
    command = [sys.executable, "-m", "pgdb", "mpi-record", "env", "--mpicc", mpi.compilers[".c"]]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    name, _, value = shown.removeprefix("export ").partition("=")
    assert name == "LD_PRELOAD", shown
    library = value.partition("$")[0]
    assert os.path.exists(library), shown
    program = build("recorded.c")
    with subprocess.Popen(
        mpi.line(RANKS, program), env={**os.environ, name: library}, start_new_session=True
    ) as job:
        try:
            wait_waiting(program, "MPI_Win_fence")
            with pgdb.attach(job.pid) as session:
                check_common(session.mpi_calls())
        finally:
            kill_all(lambda: pids_of_run(program), "its ranks")
            job.kill()


def test_a_compiler_that_is_not_there(mpi: Mpi, build: Build) -> None:
    program = build("recorded.c")
    with pytest.raises(pgdb.StartError, match="--mpicc /nowhere/mpicc: there is no such program"):
        pgdb.launch(mpi.line(1, program), mpi_record=True, mpicc="/nowhere/mpicc")
    with pytest.raises(pgdb.StartError, match=r"cannot be built: .*false -E failed"):
        pgdb.launch(mpi.line(1, program), mpi_record=True, mpicc="/bin/false")
