"""Several breakpoints at one place: each has its effect on the ranks that it is for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pgdb
from pgdb.ranks import RankSet
from pgdb.records import Stop, stopped_at
from tests.conftest import Build
from tests.support.programs import Builder, Mpi, Program, find_mpi
from tests.support.terminal import ex, run_pgdb

pytestmark = pytest.mark.mpi

RANKS = 3


@pytest.fixture
def hops(build: Build) -> Program:
    return build("hops.c")


def run(mpi: Mpi, program: Program, *commands: str) -> str:
    """Launch the program, carry out commands, and return what they print."""
    line = mpi.line(RANKS, program)
    return run_pgdb("launch", "--batch", "--settle", 3, *ex(*commands), *line).out


def stops(out: str) -> dict[str, str]:
    """Return the breakpoints of the stops at the place in a text, by the ranks."""
    found = re.findall(r"^\[([0-9,-]+)\] +(.*reakpoint .*), hop_on \(", out, re.M)
    return dict(found)


def behind(out: str, command: str) -> str:
    """Return the output of the only command of that text."""
    (text,) = re.findall(
        rf"^\(pgdb .*?\) {re.escape(command)}\n(.*?)(?=^\(pgdb |\Z)", out, re.M | re.S
    )
    return str(text)


@pytest.mark.any_mpi
def test_ranks_outside_a_set_stop_at_the_other_breakpoints(mpi: Mpi, hops: Program) -> None:
    place = hops.at("place")
    out = run(
        mpi,
        hops,
        "defset a 0",
        "defset b 0-1",
        f"break {place} if hop == 2 --ranks @a",
        f"break {place} if hop == 2 --ranks @b",
        f"tbreak {place} if hop == 2 && me == 2",
        "continue",
        "info breakpoints",
        "delete",
        f"break {place} --ranks @a",
        f"until-differ hop --at {place} --hits 3",
        "next",
        f"barrier {place}",
        "c",
    )
    text = behind(out, "continue")
    assert stops(text) == {
        "0": "Breakpoint 1 (also 2)",
        "1": "Breakpoint 2",
        "2": "Temporary breakpoint 3",
    }, out
    assert re.search(r"^3 +breakpoint +del .* \[0-1\]$", out, re.M), out
    assert f"hop is the same on [0-2] at all 3 hits of {place}" in out, out
    # Rank 0 is held although breakpoint 4 has stopped it, too.
    assert "barrier 6: [0-2] are there; they stay stopped" in out, out


@pytest.mark.any_mpi
def test_a_barrier_counts_ranks_that_another_breakpoint_stops(mpi: Mpi, hops: Program) -> None:
    place = hops.at("place")
    out = run(
        mpi,
        hops,
        f"tbreak {place}",  # behind MPI_Init, in which all wait for each other
        "c",
        f"proc 0 break {place} if hop == 3",
        f"barrier {place} if hop == 3",
        "proc 0-1 continue",
        "proc 2 continue",
        "delete",
        f"proc 0-1 barrier {place} if hop == 5",
        f"proc 1-2 barrier {place} if hop == 5",
        "continue",
    )
    assert stops(behind(out, "proc 0-1 continue")) == {
        "0": "Breakpoint 2 (also 3)",
        "1": "Breakpoint 3",
    }, out
    assert "barrier 3: [0-2] are there" in behind(out, "proc 2 continue"), out
    both = behind(out, "continue")
    assert "barrier 4: [0-1] are there" in both and "barrier 5: [1-2] are there" in both, out


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_commands_of_a_breakpoint_take_no_rank_past_a_barrier(
    name: str, builder: Builder, tmp_path: Path
) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "hops.c")
    place = program.at("place")
    commands = (
        f"tbreak {place}",
        "c",
        "define hook-next",
        "echo the hook of the user\\n",
        "end",
        f"break {place} if hop > 1",
        "commands",
        "print hop",
        "continue",
        "end",
        f"barrier {place} if hop == 3 || hop == 6",
        "commands",
        "python gdb.execute('stepi')",
        "end",
        "proc 0-1 continue",
        "proc 2 continue",
        "continue",
        "advance main",
        "help user-defined",
    )
    (file := tmp_path / "lines").write_text("".join(f"{each}\n" for each in commands))
    line = mpi.line(RANKS, program)
    out = run_pgdb("launch", "--batch", "--settle", 3, "-x", file, *line).out
    first, last = behind(out, "proc 0-1 continue"), behind(out, "continue")
    # Before the barrier's hit the commands let the ranks run on.
    assert "$1 = 2" in first and "$2 = 3" in first, out
    refused = r"^\[([0-9,-]+)\] +error: 'continue' has no effect: barrier 3 holds the rank$"
    # Ranks that come apart have a line each.
    held = RankSet.union(map(RankSet.parse, re.findall(refused, first, re.M)))
    assert held == RankSet([0, 1]), out
    assert "barrier 3: [0-1] wait; [2] is stopped" in first, out
    assert "barrier 3: [0-2] are there; they stay stopped" in behind(out, "proc 2 continue"), out
    # The numbers of values differ where ranks come apart.
    assert re.search(r"\$(?:4|…) = 5$", last, re.M), out
    assert re.search(r"\$(?:5|…) = 6$", last, re.M), out
    assert "barrier 3: [0-2] are there for the 2nd time; they stay stopped" in last, out
    assert "has no effect" not in behind(out, "advance main"), out
    assert re.findall(r"^\S*hook-\S+", behind(out, "help user-defined"), re.M) == ["hook-next"], out


@pytest.mark.any_mpi
def test_the_commands_of_a_barrier_and_of_each_stop_take_no_rank_past_it(
    mpi: Mpi, hops: Program, tmp_path: Path
) -> None:
    place = hops.at("place")
    commands = (
        f"tbreak {place}",
        "c",
        f"barrier {place} if hop == 3",
        "commands",
        "stepi",
        "end",
        "proc 0-1 continue",
        "define hook-stop",
        "continue",
        "end",
        "proc 2 continue",
        "info barriers",
    )
    (file := tmp_path / "lines").write_text("".join(f"{each}\n" for each in commands))
    line = mpi.line(RANKS, hops)
    out = run_pgdb("launch", "--batch", "--settle", 3, "-x", file, *line).out
    held = "has no effect: barrier 2 holds the rank"
    assert f"[0-1] error: 'stepi' {held}" in behind(out, "proc 0-1 continue"), out
    last = behind(out, "proc 2 continue")
    assert f"'continue' {held}" in last and "barrier 2: [0-2] are there" in last, out


@pytest.mark.any_mpi
def test_the_stop_mode_of_each_breakpoint_of_a_hit_counts(mpi: Mpi, hops: Program) -> None:
    condition = f"{hops.at('place')} if hop == 3 && me == 1"
    with pgdb.launch(mpi.line(RANKS, hops)) as session:
        session.break_at(condition)
        session.break_at(condition, stop="all")
        session.continue_(wait=False)
        answer = session.wait(timeout_s=60.0)
        found = {str(each.ranks): each.record for each in answer.classes}
        assert session.named_set("stopped") == session.set, found
        stop = found["1"]
        assert isinstance(stop, Stop) and stopped_at(stop) == (1, 2) == stop.breakpoints


@pytest.mark.any_mpi
def test_a_hit_in_a_function_that_gdb_calls_is_one_of_its_own(mpi: Mpi, build: Build) -> None:
    program = build("sets.c")
    commands = ("tbreak work", "continue", "break helper", "print helper(3)", "finish")
    line = mpi.line(RANKS, program)
    out = run_pgdb("launch", "--batch", "--settle", 20, *ex(*commands), *line).out
    called = behind(out, "print helper(3)")
    assert f"[0-{RANKS - 1}] Breakpoint 2, helper (i=3) at " in called, out
    assert "(also" not in out and "stopped while in a function called from GDB" in called, out
