"""Ranks under Valgrind, which PGDB debugs through vgdb."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pgdb
from pgdb.records import Gone
from tests.conftest import Build
from tests.support.jobs import Job, run_job
from tests.support.losses import Heard
from tests.support.processes import parent_of, processes_with, wait_until
from tests.support.programs import Builder, Mpi, Program
from tests.support.terminal import DEADLINE_S, ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi, pytest.mark.gdb]

_TOOLS = ("/usr/libexec/valgrind", "/usr/lib/valgrind", "/usr/lib/x86_64-linux-gnu/valgrind")
# Debian's Open MPI is not clean, and Valgrind stops at nothing unless asked.
_OPTIONS = ("-q", "--error-limit=no")


@contextmanager
def under_valgrind(builder: Builder, mpi: Mpi, program: Program, *options: str) -> Iterator[Job]:
    """Run two ranks of a program under Valgrind."""
    valgrind = shutil.which("valgrind") or pytest.skip("this machine has no valgrind")
    tools = [tool for each in _TOOLS for tool in Path(each).glob("memcheck-*-linux")]
    line = mpi.line(2, valgrind, *_OPTIONS, *options, str(program.path))
    also = [Program(path=tool.resolve(), source=program.source) for tool in tools]
    with run_job(builder, line, program, 2, also=also, in_mpi=False) as job:
        yield job


def gdb_of_guest(pid: int) -> int:
    """Return the process id of the GDB that debugs the rank *pid* through vgdb."""
    vgdbs = [each for each, line in processes_with("").items() if f"vgdb --pid={pid} " in line]
    parent = parent_of(vgdbs[0])
    while Path(f"/proc/{parent}/comm").read_text().strip() != "gdb":
        parent = parent_of(parent)
    return parent


def test_a_program_under_valgrind_is_debugged(builder: Builder, mpi: Mpi, build: Build) -> None:
    program, heard = build("storm.c"), Heard()
    with under_valgrind(builder, mpi, program) as job:
        with pgdb.attach(job.pid, on_event=heard) as session:
            first = session.evaluate("hit_count").check().values
            session.continue_(wait=False).check()
            stops = session.interrupt(timeout_s=DEADLINE_S).check()
            assert {each.record.reason for each in stops.classes} == {"interrupted"}
            session.break_at("hit").check()
            session.continue_(timeout_s=DEADLINE_S).check()
            assert session.evaluate("i >= 0").check().values == {0: 1, 1: 1}
            session.run("next", timeout_s=DEADLINE_S).check()
            session.run("finish", timeout_s=DEADLINE_S).check()
            later = session.evaluate("hit_count").check().values
            assert all(later[rank] > first[rank] for rank in (0, 1))

            # Valgrind lets a rank run whose GDB is killed, without its breakpoint.
            os.kill(gdb_of_guest(job.ranks[0]), signal.SIGKILL)
            wait_until(lambda: 0 in heard.of(Gone), "the loss is reported", DEADLINE_S)
            session.ranks("0").reattach().check()
            wait_until(
                lambda: session.ranks("0").evaluate("hit_count").check().values[0] >= later[0],
                "the rank is debugged again",
            )
        # The ranks run on: a second session finds them further on.
        with pgdb.attach(job.pid) as session:
            last = session.evaluate("hit_count").check().values
            assert all(last[rank] > later[rank] for rank in (0, 1))


def test_without_vgdb_the_stop_says_so(builder: Builder, mpi: Mpi, build: Build) -> None:
    with under_valgrind(builder, mpi, build("storm.c"), "--vgdb=no") as job:
        finished = run_json("attach", *ex("print 1"), job.pid)
        stops = finished.of_type("stop")[0]["classes"]
        assert stops and all("--vgdb=no" in stop["detail"] for stop in stops), finished.out


def test_a_launch_under_valgrind_names_the_way(mpi: Mpi, build: Build) -> None:
    valgrind = shutil.which("valgrind") or pytest.skip("this machine has no valgrind")
    finished = run_json("launch", *mpi.line(2, valgrind, "-q", str(build("storm.c").path)))
    stops = finished.of_type("stop")[0]["classes"]
    assert stops and all("pgdb attach" in stop["detail"] for stop in stops), finished.out
