"""Run commands that end before all ranks have stopped: who still runs, and where."""

from __future__ import annotations

import pytest

import pgdb
from tests.conftest import Build
from tests.support.programs import Mpi, Program
from tests.support.terminal import PGDB, PROMPT, Terminal, ex, run_json

pytestmark = [pytest.mark.mpi]

RANKS = 4
ODD = 3
RUN_TIMEOUT_S = 120.0


@pytest.fixture
def line(mpi: Mpi, build: Build) -> list[str]:
    """The launcher's line of ranks that wait for the last one, which computes for ever."""
    return [str(word) for word in mpi.line(RANKS, build("meet.c"), str(ODD), "2", "spin")]


@pytest.fixture
def meet(build: Build) -> Program:
    return build("meet.c")


def test_ranks_that_still_run_are_named_with_their_place(line: list[str], meet: Program) -> None:
    # Rank 3 stops; the others come to the barrier behind the loop, where they wait for it.
    commands = ("break act", "timeout 60 proc 3 wait 0.1", "continue", "info threads")
    finished = run_json("launch", "--settle", "5", *ex(*commands), *line)
    answer = finished.answer("continue")
    assert answer["missing"]["running"] == "0-2", finished.out
    (place,) = answer["still_running"]
    assert place["ranks"] == "0-2" and place["function"].lower().startswith("pmpi_barrier")
    assert place["text"].startswith(f"in {place['function']} <- main")
    assert finished.of_type("waiting")[0]["running"]


def test_a_look_neither_stops_a_run_nor_is_seen(line: list[str], meet: Program) -> None:
    with pgdb.launch(line) as session:
        session.break_at("act", temporary=True).check()
        session.ranks(str(ODD)).continue_(wait=False)
        session.ranks("0-2").continue_(wait=False)
        session.ranks(str(ODD)).wait(timeout_s=RUN_TIMEOUT_S).check()
        news: list[object] = []
        end = session.subscribe(news.append)
        for _ in range(20):
            (place,) = session.ranks("0-2").still_running()
            assert str(place.ranks) == "0-2" and place.text.startswith("in ")
        end()
        assert not [each for each in news if isinstance(each, pgdb.RankEvents)]
        session.ranks(str(ODD)).finish(timeout_s=0.5)
        (place,) = session.ranks(str(ODD)).still_running()
        assert place.text.startswith("in the 'finish' from act at meet.c:"), place
        session.ranks(str(ODD)).interrupt(timeout_s=RUN_TIMEOUT_S)
        session.ranks(str(ODD)).evaluate("spins = 0").check()
        session.ranks(str(ODD)).continue_(wait=False)
        assert not session.wait(timeout_s=RUN_TIMEOUT_S).missing


@pytest.mark.any_mpi
def test_a_terminal_shows_progress(line: list[str]) -> None:
    with Terminal(*PGDB, "launch", "--", *line) as terminal:
        terminal.expect(PROMPT)
        terminal.line("tbreak act")
        terminal.line("continue")
        terminal.expect(r"3 of 4 still running: \[0-2\] in PMPI_\w+ <- main")
        terminal.line("proc 3 continue")
        terminal.expect(r"1 of 1 still running: \[3\], for \d+ s")
        terminal.control_c()
        terminal.expect(r"\[3\].*interrupted in .*act")
        terminal.line("timeout 2 continue")
        terminal.expect(r"4 of 4 still running: \[0-2\] in PMPI_\w+ <- main, \[3\] in \w+")
        terminal.line("interrupt")
        terminal.expect(r"\[3\].*interrupted in .*act")
        terminal.line("proc 3 print spins = 0")
        terminal.line("continue")
        terminal.expect(r"exited normally")


def test_ranks_that_wait_for_a_held_one_are_named(mpi: Mpi, meet: Program) -> None:
    line = [str(word) for word in mpi.line(RANKS, meet, str(ODD), "2", "recv")]
    with Terminal(*PGDB, "launch", "--settle", "600", "--", *line) as terminal:
        terminal.expect(PROMPT)
        terminal.line("tbreak meet if step == 2 && rank == 0")
        terminal.line("continue &")
        terminal.expect(r"breakpoint 1, meet")
        terminal.line("hold 0")
        terminal.line("wait")
        terminal.expect(
            r"note: .*\[3\] is in MPI_Recv from 0 with tag 1 .*, and may wait for \[0\], "
        )
        terminal.control_c()
        terminal.expect(r"interrupted in P?MPI_")
        terminal.line("release 0")
        terminal.line("continue")
        terminal.expect(r"exited normally")
