"""Hits of breakpoints and traces are counted once, whatever interrupts come meanwhile."""

from __future__ import annotations

import os
import signal

import pytest

import pgdb
from pgdb.jobs import procfs
from pgdb.records import BreakpointList
from tests.conftest import Build, StartJob
from tests.support.processes import wait_until
from tests.support.terminal import assert_untouched

pytestmark = [pytest.mark.mpi]

INTERRUPTS = 150
"""Before interrupts were for the first thread, 3 to 20 of them counted a hit twice."""
STOPS = 5


def test_interrupts_let_a_trace_collect_each_hit_once(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("storm.c")) as job:
        with pgdb.attach(job.pid, timeout_s=120.0) as session:
            session.continue_(wait=False)
            session.trace("hit", "hit_count").check()
            for _ in range(INTERRUPTS):
                session.interrupt()
                session.continue_(wait=False)
            session.interrupt()
            by_rank = session.trace_data(1).by_rank
        for rank, rows in by_rank.items():
            counts = [int(count) for (count,) in rows]
            assert counts == list(range(counts[0], counts[0] + len(counts))), f"rank {rank}"
        assert_untouched(job.ranks)


def test_an_interrupt_that_came_too_late_counts_no_hit_twice(
    build: Build, start_job: StartJob
) -> None:
    with start_job(1, build("storm.c")) as job:
        pid = job.ranks[0]
        with pgdb.attach(job.pid, timeout_s=120.0) as session:
            session.break_at("hit").check()
            session.trace("hit", "hit_count").check()
            session.continue_().check()
            session.execute("set scheduler-locking step").check()
            for _ in range(STOPS):
                # It is left as by an interrupt of a rank that has just stopped by itself.
                os.kill(pid, signal.SIGURG)
                wait_until(lambda: signal.SIGURG in (procfs.pending_signals(pid) or ()), "it")
                session.continue_().check()
            (listed,) = session.breakpoints().classes
            assert isinstance(listed.record, BreakpointList)
            assert [each.times for each in listed.record.breakpoints] == [STOPS + 1]
            counts = [int(count) for (count,) in session.trace_data(1).by_rank[0]]
            assert counts == list(range(counts[0], counts[0] + STOPS + 1))
            assert '"step"' in str(session.execute("show scheduler-locking").classes[0].record)
        assert_untouched(job.ranks)
