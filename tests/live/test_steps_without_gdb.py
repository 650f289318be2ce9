"""Ranks that have been stepped and whose GDBs are killed.

The kernel keeps a thread's single-stepping when its debugger is killed, and the next trap ends it.
"""

from __future__ import annotations

import os
import platform
import signal

import pytest

import pgdb
from pgdb.overlay.operations import RunWord
from tests.conftest import Build, StartJob
from tests.support.losses import Heard, lose_gdb
from tests.support.processes import status, wait_until
from tests.support.terminal import DEADLINE_S, assert_untouched

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.any_mpi,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="measured on x86-64 alone"),
]

ONCE: tuple[RunWord, ...] = ("next", "step", "stepi", "nexti", "until")


@pytest.mark.parametrize(
    ("step", "count"), [*((each, "") for each in ONCE), ("next", "3"), ("stepi", "5")]
)
def test_a_rank_that_stands_behind_a_step_survives_its_gdb(
    build: Build, start_job: StartJob, step: RunWord, count: str
) -> None:
    heard = Heard()
    with start_job(2, build("storm.c")) as job:
        with pgdb.attach(job.pid, on_event=heard) as session:
            session.break_at("hit").check()
            session.continue_().check()
            session.delete().check()
            session.run(step, count).check()
            # GDB sees the signal of its step.
            assert session.evaluate("$_siginfo.si_signo").values == {0: 5, 1: 5}
            lose_gdb(job, 1, heard)
            assert_untouched({1: job.ranks[1]})
        assert_untouched(job.ranks)


def test_a_step_that_was_interrupted_is_no_danger_either(build: Build, start_job: StartJob) -> None:
    """The line of the loop has no end; GDB steps each of its instructions."""
    heard = Heard()
    with start_job(2, build("endless_line.c")) as job:
        with pgdb.attach(job.pid, on_event=heard) as session:
            session.run("next", wait=False).check()
            wait_until(lambda: status(job.ranks[1], "State")[:1] in "Rt", "rank 1 is stepped")
            session.interrupt().check()
            lose_gdb(job, 1, heard)
        for pid in job.ranks.values():
            os.kill(pid, signal.SIGUSR1)
        assert job.process.wait(DEADLINE_S) == 0
