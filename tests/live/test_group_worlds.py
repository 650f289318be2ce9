"""Groups in motion of several worlds, and of several programs."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.conftest import Build
from tests.support.programs import Builder, Mpi, find_mpi
from tests.support.terminal import PGDB, PROMPT, Terminal, ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 7
"""2 ranks, and the 2 and 3 ranks that these have started."""
END_S = 20.0


@pytest.fixture(params=("openmpi", "mpich"))
def mpi_of_worlds(request: pytest.FixtureRequest) -> Mpi:
    return find_mpi(request.param)


@pytest.fixture
def worlds(builder: Builder, mpi_of_worlds: Mpi) -> Iterator[int]:
    """The launcher of three worlds whose ranks call usleep all the time."""
    mpi = mpi_of_worlds
    line = mpi.line(2, builder.build(mpi, "spawns.c"))
    with subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            for _ in range(RANKS):
                assert process.stdout.readline().endswith(b"waits\n")
            yield process.pid
        finally:
            process.terminate()
            try:
                process.communicate(timeout=END_S)
            except subprocess.TimeoutExpired:  # mpirun may stay, with ranks that have ended
                process.kill()


def test_ranks_of_several_worlds_move_as_groups(
    worlds: int, mpi_of_worlds: Mpi, builder: Builder
) -> None:
    place = builder.build(mpi_of_worlds, "spawns.c").at("waiting")
    commands = ex(
        f"tbreak {place}",
        "continue",
        "hold @world2",
        "next",
        "release @held",
        "proc @world2 next",
        "next --lockstep 3",
        "proc 1.0-1 next --lockstep 2",
        f"barrier {place} 0,1.0-1",
        "proc 0,1.0-1 continue",
        "delete",
        f"tbreak {place} --ranks @world2",
        "proc @world2 continue",
        f"trace {place} rank, $_world --first 2",
        f"break {place} if $_world == 2 && rank == 1 --stop all",
        "continue",
        "delete",
        f"until-differ rank --at {place}",
        "traces 1",
        "detach",
    )
    finished = run_pgdb("attach", "--batch", *commands, "--world", "all", worlds)
    out = finished.out
    assert "[4-6] held" in out
    assert re.search(r"next\n\[0-3\] stopped in main", out.replace("(pgdb 0-6) ", "")), out
    assert "3 steps, all together" in out and "2 steps, all together" in out
    assert "barrier 2: [0,2-3] are there; they stay stopped" in out, out
    assert re.search(r"^\[4-6\] Temporary breakpoint 3, main", out, re.M), out
    assert re.search(r"^\[5\] +Breakpoint 4, main", out, re.M), out
    stopped = re.findall(r"^\[([0-9,-]+)\] +stopped with \[5\]", out, re.M)
    assert stopped and not any("5" in each.split(",") for each in stopped), out
    assert "hit 1 of " in out and "rank differs" in out
    assert "[0-1] 0, [2-3] 1, [4-6] 2" in out, out
    assert "[0-6] detached; they run on" in out


def test_ranks_of_several_programs_move_as_groups(mpi: Mpi, build: Build) -> None:
    one, other = build("mpmd_a.c"), build("mpmd_b.c")
    commands = ex(
        "next --lockstep",
        "continue --lockstep",
        "proc 0-1 next --lockstep 2",
        "barrier first_rank_of",
        "continue",
        "delete",
        "finish --lockstep",
        "next --lockstep",
        "trace wait_to_go_on waits",
        "set stop-mode all",
        "break wait_to_go_on --ranks all",
        "continue",
        "traces 1",
        "detach",
    )
    line = [*mpi.line(2, one), ":", "-n", 2, other.path]
    out = run_pgdb("launch", "--batch", *commands, *line).out
    lines = (
        f"[0-1] main at mpmd_a.c:{one.line('main')}, [2-3] main at mpmd_b.c:{other.line('main')}"
    )
    assert f"the ranks are in several functions of several programs: {lines}; only" in out, out
    by_program = r"; 'proc SET next --lockstep' steps one program by itself: \[0-1\] .*, \[2-3\] "
    assert re.search(by_program, out), out
    assert "2 steps, all together" in out, out
    assert "barrier 1: [0-3] are there; they stay stopped" in out
    # Functions of one name in two files are two places for 'finish' and 'next', too.
    assert out.count("in several functions of several programs") == 3, out
    assert re.search(r"^\[0-1\] +Breakpoint 2, wait_to_go_on", out, re.M), out
    assert "trace 1: 1 row on [0-3]" in out, out


def test_ways_and_values_of_several_programs_are_compared(mpi: Mpi, build: Build) -> None:
    one, other = build("mpmd_a.c"), build("mpmd_b.c")
    commands = ex(
        "until-differ program --at first_rank_of",
        "until-diverge --by next",
        "hold 0-1",
        "barrier wait_to_go_on",
        "proc 2-3 continue",
        "release 0-1",
        "continue",
        "detach",
    )
    line = [*mpi.line(2, one), ":", "-n", 2, other.path]
    out = run_pgdb("launch", "--batch", "--settle", "3", *commands, *line).out
    assert "hit 1 of first_rank_of: program differs" in out, out
    assert re.search(r"^\[(0-1|2-3)\] +program = 9[78] '[ab]'", out, re.M), out
    # Functions of one name in two files are two places, from which no group can step.
    assert re.search(
        r"several functions of several programs: \[0-1\] first_rank_of at mpmd_a.c:\d+, "
        r"\[2-3\] first_rank_of at mpmd_b.c:\d+; only ranks at the same line",
        out,
    ), out
    assert re.search(r"^\[2-3\] +Breakpoint 2, wait_to_go_on", out, re.M), out
    assert re.search(r"barrier 2: \[0-3\] are there; they stay stopped", out), out


def test_ctrl_c_ends_a_barrier_at_which_ranks_run_on(mpi: Mpi, build: Build) -> None:
    """Each interrupt may find the ranks at the barrier, which is to let them run on."""
    with Terminal(*PGDB, "launch", "--", *mpi.line(2, build("storm.c"))) as terminal:
        terminal.expect(PROMPT)
        terminal.line("barrier hit --then release")
        terminal.expect(r"and then run on")
        for number in range(5):
            terminal.line("continue")
            terminal.expect(r"are there; they run on" if not number else r"time; they run on")
            terminal.control_c()
            # Until then typed lines are input for the job. A rank may wait at the barrier by then.
            terminal.expect(r"\(pgdb 0-1( 1 held)?\)")
            terminal.line(f"print 100 + {number}")
            terminal.expect(rf" = 10{number}\n")
        terminal.line("delete 1")
        terminal.line("kill")
        terminal.expect(r"y or n")
        terminal.line("y")
        terminal.expect(r"\[0-1\] (ended by SIGKILL|killed)")
