"""A rank dies: the launcher is held before it ends the others, and goes on in the end."""

from __future__ import annotations

import os
import signal

import pytest

import pgdb
from pgdb.frontend.api.notifications import JobEnded
from pgdb.jobs import procfs
from pgdb.records import Exit, Stop
from tests.support.processes import wait_until
from tests.support.programs import Builder, find_mpi
from tests.support.slurm import Slurm
from tests.support.terminal import PGDB, PROMPT, Terminal, ex, run_json

pytestmark = [pytest.mark.mpi]

RANKS = 5
DEAD = 3
"""The only rank that dies: by _exit(5)."""
RUN_TIMEOUT_S = 120.0


def state_of(pid: int) -> str:
    """Return the letter of a process's state; empty once it is gone."""
    status = procfs.read_stat(pid)
    return status.state if status is not None else ""


def children_of(parent: int) -> list[int]:
    """Return the children of a process."""
    found = ((pid, procfs.read_stat(pid)) for pid in procfs.all_pids())
    return [pid for pid, status in found if status is not None and status.ppid == parent]


@pytest.mark.parametrize("name", ["openmpi", "openmpi5"])
def test_the_others_stay_until_they_run(name: str, builder: Builder) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "deaths.c")
    with pgdb.launch(mpi.line(RANKS, program, str(DEAD))) as session:
        ends: list[int] = []
        session.subscribe(
            lambda news: ends.append(news.code) if isinstance(news, JobEnded) else None
        )
        answer = session.continue_(timeout_s=RUN_TIMEOUT_S)
        end = answer.for_rank(DEAD)
        assert isinstance(end, Exit) and end.code == 5
        for rank in {*range(RANKS)} - {DEAD}:
            stop = answer.for_rank(rank)
            assert isinstance(stop, Stop)
            assert (stop.signal, stop.after) == ("SIGTERM", str(DEAD)), stop
        status = procfs.read_stat(session.table.processes[0].pid)
        assert status is not None
        launcher = status.ppid
        wait_until(lambda: state_of(launcher) == "T", "the launcher is held")
        others = session.ranks(f"all!{DEAD}")
        assert set(others.evaluate("rank").check().values) == {*range(RANKS)} - {DEAD}
        assert state_of(launcher) == "T"
        others.continue_(timeout_s=RUN_TIMEOUT_S)
        wait_until(lambda: bool(ends), "the launcher has ended", RUN_TIMEOUT_S)


@pytest.mark.parametrize("way", ["SIGKILL", "detach"])
def test_the_launcher_goes_on_without_pgdb(way: str, builder: Builder) -> None:
    mpi = find_mpi("openmpi")
    program = builder.build(mpi, "deaths.c")
    line = mpi.line(RANKS, program, str(DEAD))
    with Terminal(*PGDB, "launch", "--", *line) as terminal:
        terminal.expect(PROMPT)
        terminal.line("continue")
        terminal.expect(r"\[3\] died, and the launcher ends the others; it is held \(SIGSTOP\)")
        (launcher,) = [pid for pid in children_of(terminal.pid) if state_of(pid) == "T"]
        if way == "SIGKILL":
            os.kill(terminal.pid, signal.SIGKILL)
        else:
            terminal.expect(PROMPT)
            terminal.line("detach")
        wait_until(lambda: not state_of(launcher), "it has ended", RUN_TIMEOUT_S)


@pytest.mark.parametrize("name", ["mpich", "intel"])
def test_the_rank_that_has_died_is_named_where_nothing_can_be_held(
    name: str, builder: Builder
) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "deaths.c")
    finished = run_json("launch", *ex("continue"), *mpi.line(RANKS, program, str(DEAD)))
    ends = [each for line in finished.of_type("exit") for each in line.get("classes", ())]
    (first,) = [each for each in ends if each.get("code") == 5]
    assert first["ranks"] == str(DEAD)
    named = {each.get("after", "") for each in ends if each is not first}
    # The ends of the others can come before its own, from GDBs of their own.
    assert named <= {str(DEAD), ""}


@pytest.mark.slurm
def test_srun_with_pmix_ends_the_others_at_once(slurm: Slurm, builder: Builder) -> None:
    mpi = find_mpi("slurm-pmix")
    line = mpi.line(4, builder.build(mpi, "deaths.c"), str(DEAD))
    try:
        finished = run_json("launch", *ex("continue"), *line, changes=slurm.environment)
    finally:
        slurm.cancel_all()
    ends = [each for line in finished.of_type("exit") for each in line.get("classes", ())]
    (first,) = [each for each in ends if each.get("code") == 5]
    assert first["ranks"] == str(DEAD)
    others = [each for each in ends if each is not first]
    assert {each.get("signal") for each in others} == {"SIGKILL"}
    assert {each.get("after", "") for each in others} <= {str(DEAD), ""}


@pytest.mark.slurm
def test_srun_without_pmix_lets_the_others_run(
    slurm: Slurm, builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpi = find_mpi("slurm")
    line = mpi.line(4, builder.build(mpi, "deaths.c"), str(DEAD))
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    try:
        with pgdb.launch(line) as session:
            session.continue_(wait=False)
            end = session.ranks(str(DEAD)).wait(timeout_s=RUN_TIMEOUT_S).for_rank(DEAD)
            assert isinstance(end, Exit) and end.code == 5
            others = session.ranks(f"all!{DEAD}")
            answer = others.interrupt(timeout_s=RUN_TIMEOUT_S)
            assert all(isinstance(each.record, Stop) for each in answer), answer
            assert {*others.evaluate("1 + 1").check().values} == {*range(4)} - {DEAD}
    finally:
        slurm.cancel_all()
