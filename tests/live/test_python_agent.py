"""A rank of Python outlives its debugger, and nothing of PGDB's stays in it or beside it."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pgdb
from pgdb.backend.python import reader
from pgdb.records import BreakpointList
from tests.support.processes import aggregator_of, is_traced, status, wait_until
from tests.support.python_jobs import FILE, FIRST, RANKS, Job, job, require_arming
from tests.support.terminal import DEADLINE_S, PGDB, Terminal

pytestmark = [
    pytest.mark.gdb,
    pytest.mark.any_mpi,
    pytest.mark.skipif(not reader.program(), reason="py-spy is not installed"),
]
_FOLDER = re.compile(r"/[\w/]*/pgdb-python-\w+")


def folders(left: list[str]) -> list[Path]:
    """Return the folders that the agents share with PGDB, as the ranks name them."""
    return [Path(found[0]) for each in left if (found := _FOLDER.search(each)) is not None]


def gdbs(ranks: Job) -> list[int]:
    return [int(status(each.pid, "TracerPid")) for each in ranks.processes]


def aggregators(ranks: Job) -> list[int]:
    return [aggregator_of(ranks.processes[0].pid)]


@pytest.mark.parametrize("place", [f"{FILE}:{FIRST} if False", "json.dumps"])
@pytest.mark.parametrize("victims", [gdbs, aggregators, None])
def test_a_death_leaves_no_agent(victims: Callable[[Job], list[int]] | None, place: str) -> None:
    require_arming(sys.executable)
    with job() as ranks:
        pids = ",".join(str(each.pid) for each in ranks.processes)
        with Terminal(*PGDB, "attach", "--pids", pids) as terminal:
            terminal.expect(r"\(pgdb 0-1\)")
            terminal.line(f"break {place}")
            terminal.expect(r"Breakpoint 1.*\n.*\(pgdb 0-1\)")
            terminal.line("continue &")
            wait_until(lambda: len(folders(ranks.left())) == RANKS, "agents", DEADLINE_S)
            shared = folders(ranks.left())
            assert all(each.is_dir() for each in shared)
            for each in victims(ranks) if victims is not None else [terminal.pid]:
                os.kill(each, signal.SIGKILL)
            wait_until(
                lambda: not any(is_traced(each.pid) for each in ranks.processes),
                "the ranks are free",
                DEADLINE_S,
            )
            wait_until(lambda: ranks.left() == ["[]"] * RANKS, "the agents go", DEADLINE_S)
            wait_until(
                lambda: not any(each.exists() for each in shared), "the folders go", DEADLINE_S
            )
            assert all(each.poll() is None for each in ranks.processes)


def test_a_breakpoint_is_armed_again_in_a_program_that_the_rank_executes() -> None:
    require_arming(sys.executable)
    with job() as ranks:
        pids = [str(each.pid) for each in ranks.processes]
        with pgdb.attach("", pids=pids) as session:
            session.break_at(f"{FILE}:{FIRST}", condition="False").check()
            session.continue_(wait=False).check()
            wait_until(lambda: len(folders(ranks.left())) == RANKS, "agents", DEADLINE_S)
            before = folders(ranks.left())
            ranks.say("exec")
            assert [ranks.line(rank) for rank in range(RANKS)] == ["ready"] * RANKS
            assert ranks.left() == ["[]"] * RANKS
            session.interrupt().check()
            listed = session.breakpoints().for_rank(0)
            assert isinstance(listed, BreakpointList)
            (made,) = listed.breakpoints
            assert "not armed" in made.what
            session.continue_(wait=False).check()
            wait_until(lambda: len(folders(ranks.left())) == RANKS, "new agents", DEADLINE_S)
            after = folders(ranks.left())
            assert not set(before) & set(after)
            assert not any(each.exists() for each in before)
            session.interrupt().check()
            listed = session.breakpoints().for_rank(0)
            assert isinstance(listed, BreakpointList) and listed.breakpoints[0].enabled
        wait_until(lambda: ranks.left() == ["[]"] * RANKS, "the agents go", DEADLINE_S)
        assert not any(each.exists() for each in after)
