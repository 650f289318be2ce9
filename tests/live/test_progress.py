"""Samples of running jobs."""

from __future__ import annotations

import pytest

import pgdb
from pgdb.ranks import RankSet
from tests.conftest import Build, StartJob
from tests.support.processes import wait_until
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def test_the_rank_that_computes_is_behind(build: Build, start_job: StartJob) -> None:
    program = build("behind.c", "-O1")
    with start_job(3, program) as job, pgdb.attach(job.pid) as session:
        session.continue_(wait=False).check()
        found = session.progress(samples=5, every_s=0.1)
        assert session.named_set("running") == session.set
        assert found.behind == RankSet([1]), found
        last = {str(each.ranks): each.last for each in found.rows}
        assert last.keys() == {"0,2", "1"}
        late, others = last["1"], last["0,2"]
        assert late is not None and late.where is not None and late.where.function == "smooth"
        assert others is not None and others.call is not None
        assert others.call.function == "MPI_Allreduce" and others.where is not None
        assert others.where.line == program.line("wait")


def test_samples_at_the_prompt(mpi: Mpi, build: Build) -> None:
    program = build("behind.c", "-O1")
    # Rank 1 computes from its first step on.
    begin = ("progress", "tbreak smooth", "proc 0 continue &", "proc 1 continue", "continue &")
    lines = (*begin, "progress --samples 3 --every 0.1", "progress --samples 0")
    finished = run_pgdb("launch", "--batch", *ex(*lines, "kill"), *mpi.line(2, program))
    assert "progress: no rank of [0-1] runs" in finished.out
    assert "samples in " in finished.out and "# computes" in finished.out, finished.out
    assert "progress: --samples" in finished.out or "--samples 0" in finished.out, finished.out


def test_samples_of_the_recorder_stop_no_rank(mpi: Mpi, build: Build) -> None:
    program = build("behind.c", "-O1")
    with pgdb.launch(mpi.line(3, program), mpi_record=True) as session:
        session.continue_(wait=False).check()

        def are_there() -> bool:
            found = session.progress(samples=2, every_s=0.1)
            assert found.recorded, found
            return found.behind == RankSet([1])

        wait_until(are_there, "rank 1 computes, and the others wait for it")
        assert session.named_set("running") == session.set
        session.kill()
