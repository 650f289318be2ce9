"""Verdicts of real jobs about a rank outside MPI: it never comes, it blocks, or it is slow."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

import pgdb
from pgdb.frontend.analysis.why.verdict import Confidence, Verdict
from tests.conftest import Build
from tests.support.processes import wait_until
from tests.support.programs import Mpi
from tests.support.ready_jobs import started

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.any_mpi,
    pytest.mark.skipif(
        platform.machine() != "x86_64", reason="loops are followed in the code of x86-64 alone"
    ),
]

RANKS = 4
WATCH_S = 0.5


def verdict(session: pgdb.Session, confidence: Confidence) -> Verdict:
    """Return the verdict about the missing rank, once the ranks have come so far."""
    found: list[Verdict] = []

    def is_there() -> bool:
        found[:] = session.why(watch_s=WATCH_S).verdicts
        return [(each.kind, each.confidence) for each in found] == [
            ("missing-from-collective", confidence)
        ]

    wait_until(is_there, f"a verdict that is {confidence}")
    return found[0]


@pytest.mark.parametrize(
    ("program", "rank", "confidence", "work"),
    [
        ("missing_loop.c", "2", "certain", "in a loop that has no way out"),
        ("flag_spin.c", "1", "likely", "in a loop that only another thread or process can end"),
        ("semaphore.c", "3", "likely", "waits for a lock in sem_wait"),
        ("omp_late.c", "2", "likely", "does input or output in read on a pipe in thread"),
    ],
)
def test_the_work_of_a_missing_rank_is_named(
    build: Build,
    mpi: Mpi,
    tmp_path: Path,
    program: str,
    rank: str,
    confidence: Confidence,
    work: str,
) -> None:
    with (
        started(mpi.line(RANKS, build(program, "-fopenmp")), RANKS, tmp_path) as pid,
        pgdb.attach(pid) as session,
    ):
        found = verdict(session, confidence)
    assert str(found.ranks) == rank
    assert work in found.text


def test_a_rank_that_computes_for_longer_than_the_watch_is_not_accused(
    build: Build, mpi: Mpi, tmp_path: Path
) -> None:
    program = build("computes_long.c")
    with started(mpi.line(RANKS, program), RANKS, tmp_path) as pid, pgdb.attach(pid) as session:
        found = verdict(session, "cannot tell")
    assert str(found.ranks) == "2"
    assert "slow, or in a loop that does not end" in found.decides


def test_a_rank_whose_child_works_is_not_accused(build: Build, mpi: Mpi, tmp_path: Path) -> None:
    program = build("child_works.c")
    with started(mpi.line(RANKS, program), RANKS, tmp_path) as pid, pgdb.attach(pid) as session:
        found = verdict(session, "cannot tell")
    assert "waits for a child process in wait" in found.text
    assert "child processes are at work" in found.decides


def test_the_work_of_an_awaited_thread_is_that_of_the_rank(
    build: Build, mpi: Mpi, tmp_path: Path
) -> None:
    program = build("join_computes.c")
    with started(mpi.line(RANKS, program), RANKS, tmp_path) as pid, pgdb.attach(pid) as session:
        found = verdict(session, "cannot tell")
    assert "rank 0, which computes in thread" in found.text
    assert "slow, or in a loop that does not end" in found.decides
