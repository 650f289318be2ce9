"""Ranks of a real job that are lost at a barrier, with their aggregator."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

import pgdb
from pgdb.frontend.api.notifications import BarrierNews
from pgdb.frontend.show.text import meeting_text
from tests.support.jobs import Job, run_job
from tests.support.processes import aggregator_of, wait_until
from tests.support.programs import Builder, find_mpi
from tests.support.terminal import DEADLINE_S

pytestmark = pytest.mark.mpi

RANKS = 3


@pytest.fixture
def job(builder: Builder) -> Iterator[Job]:
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "storm.c", "-DPAUSE_NS=20000000")
    with run_job(builder, mpi.line(RANKS, program), program, RANKS) as job:
        yield job


def test_ranks_that_are_lost_at_a_barrier_have_not_met(job: Job) -> None:
    """The first rank is held for the barrier, and the second one by the user."""
    lines: list[str] = []

    def listen(news: pgdb.Notification) -> None:
        if isinstance(news, BarrierNews):
            lines.append(meeting_text.barrier_news(news))

    with pgdb.attach(job.pid, on_event=listen) as session:
        number = session.barrier("hit").number
        session.ranks("1").hold()
        session.ranks("0").continue_(timeout_s=DEADLINE_S).check()
        held = {"hold": pgdb.RankSet([1]), f"barrier {number}": pgdb.RankSet([0])}
        assert dict(session.held_for) == held
        lines.clear()
        os.kill(aggregator_of(job.ranks[0]), signal.SIGKILL)
        wait_until(lambda: bool(lines), "the barrier has news", DEADLINE_S)
        assert lines == [f"barrier {number}: [0-2] are lost; no rank is there"]
        session.reattach(timeout_s=DEADLINE_S).check()
        (barrier,) = session.barriers
        assert (barrier.met, str(barrier.arrived), barrier.absent) == (0, "", ())
        assert dict(session.held_for) == {"hold": pgdb.RankSet([1])}
        # The barrier has its breakpoint again.
        session.release()
        session.continue_(timeout_s=DEADLINE_S).check()
        assert session.wait_barrier(number, timeout_s=DEADLINE_S).met == 1
