"""Groups in motion, on real jobs: held ranks, and ranks that stop with others."""

from __future__ import annotations

import re

import pytest

from pgdb.ranks import RankSet
from tests.conftest import Build, StartJob
from tests.support.programs import Mpi
from tests.support.terminal import assert_untouched, ex, run_json, run_pgdb

pytestmark = pytest.mark.mpi


def test_ranks_stop_with_the_one_that_hits(mpi: Mpi, build: Build) -> None:
    program = build("ring.c")
    commands = ex("set stop-mode all", f"break {program.at('sleep')} if $_rank == 2", "continue")
    finished = run_json("launch", *commands, *mpi.line(3, program))
    assert finished.status == 0, finished.out
    # The others stop in other places, but in the same notification.
    stops = {each["ranks"]: each for each in finished.of_type("stop")[-1]["classes"]}
    assert stops.pop("2")["reason"] == "breakpoint-hit"
    assert stops and {each["reason"] for each in stops.values()} == {"interrupted"}
    assert {each["stopped_with"] for each in stops.values()} == {"2"}
    assert all(each["text"].startswith("stopped with [2] in ") for each in stops.values())
    assert finished.answer("continue")["missing"]["running"] == ""


def test_a_set_is_read_at_each_hit(mpi: Mpi, build: Build) -> None:
    program = build("ring.c")
    commands = ex(
        "defset mine 0-2",
        f"break {program.at('sleep')} --ranks @mine --stop all",
        "defset mine 1",
        "continue",
        "ranks",
    )
    finished = run_pgdb("launch", "--batch", *commands, *mpi.line(3, program))
    assert finished.status == 0, finished.out + finished.err
    assert re.search(r"^\[1\] +Breakpoint 1, advance", finished.out, re.M), finished.out
    assert re.search(r"^\[[02,]+\] +stopped with \[1\] in ", finished.out, re.M), finished.out


def test_held_ranks_stay_where_they_are(mpi: Mpi, build: Build) -> None:
    program = build("ring.c")
    commands = ex(
        f"tbreak {program.at('step')}",
        "continue",
        "hold 0",
        "step",
        "release @held",
        "proc 0 step",
        "frame",
    )
    finished = run_pgdb("launch", "--batch", *commands, *mpi.line(3, program))
    assert finished.status == 0, finished.out + finished.err
    out = finished.out
    first, last = out[: out.index("[0] released")], out[out.index("[0] released") :]
    assert "[0] held" in first
    assert re.search(r"^\[1-2\] +stopped in advance \(", first, re.M), out
    assert not re.search(r"^\[0[^]]*\] +stopped in advance", first, re.M), out
    assert re.search(r"^\[0\] +stopped in advance \(", last, re.M), out


@pytest.mark.any_mpi
@pytest.mark.parametrize("second", ["continue", "proc 2 continue"])
def test_a_rank_in_the_background_stops_with_the_others(
    second: str, mpi: Mpi, build: Build
) -> None:
    program = build("ring.c")
    commands = ex(
        "break advance",
        "continue",
        "delete",
        "proc 0-1 continue &",
        f"proc 2 tbreak {program.at('sleep')} --stop all",
        second,
        "wait",
        "ranks",
    )
    finished = run_pgdb("launch", "--batch", *commands, *mpi.line(3, program))
    assert finished.status == 0, finished.out + finished.err
    before, found, _ = finished.out.partition("(pgdb 0-2) ranks")
    assert found and "[2] Temporary breakpoint 2" in re.sub(" +", " ", before), finished.out
    stopped = RankSet.union(
        RankSet.parse(each)
        for each in re.findall(r"^\[([^]]+)\] +stopped with \[2\] in ", before, re.M)
    )
    assert stopped == RankSet.parse("0-1"), finished.out
    assert "ran already" not in finished.out


@pytest.mark.parametrize("end", ["detach", "quit"])
def test_held_ranks_run_free_at_the_end(end: str, start_job: StartJob, build: Build) -> None:
    with start_job(3, build("ring.c")) as job:
        finished = run_pgdb("attach", "--batch", *ex("hold 0-1", "ranks", end), job.pid)
        assert finished.status == 0, finished.out
        assert "[0-1] held" in finished.out
        assert_untouched(job.ranks)
