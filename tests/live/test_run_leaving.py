"""Ranks under ``pgdb run`` that leave: a process behind, or the job without MPI_Finalize."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Build
from tests.support.processes import programs_with, wait_until
from tests.support.programs import Builder, Mpi, find_mpi
from tests.support.terminal import MARK, FrontEnd, run_pgdb

DEADLINE_S = 300.0
MPIS = ("openmpi", "openmpi5", "mpich", "intel")

pytestmark = [pytest.mark.mpi, pytest.mark.gdb]


def test_a_launcher_that_waits_for_a_daemon_of_a_rank_is_named(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    end, said, file = tmp_path / "end", tmp_path / "said", tmp_path / "report.json"
    line = mpi.line(2, build("left_behind.c"), "daemon", end)
    with open(said, "wb") as errors, FrontEnd("run", "-o", file, "--", *line, stderr=errors) as run:
        words = b"all ranks have ended, but their launcher"
        try:
            wait_until(lambda: words in said.read_bytes(), "the launcher is named", DEADLINE_S)
        finally:
            end.touch()
        assert run.wait(DEADLINE_S) == 0
    report = json.loads(file.read_bytes())
    assert report["cause"]["kind"] == "none"
    assert any("a process that a rank has left behind" in each for each in report["notes"])


STANDING_STILL = """#!/bin/sh
[ "$1" = --version ] && exec {0} "$@"
{0} "$@" &
job=$!
trap 'kill -TERM $job' TERM
wait $job
wait $job
while :; do sleep 1; done
"""


@pytest.mark.any_mpi
def test_a_launcher_that_stands_still_behind_the_end_of_its_job_is_ended(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    """Open MPI's launcher stands still so, now and then, behind a second SIGTERM."""
    launcher, file, said = tmp_path / "mpirun", tmp_path / "report.json", tmp_path / "said"
    launcher.write_text(STANDING_STILL.format(mpi.launcher))
    launcher.chmod(0o755)
    program = build("unattended.c")
    line = [str(launcher), *mpi.line(2, program, "sleep")[1:]]
    with open(said, "wb") as errors, FrontEnd("run", "-o", file, "--", *line, stderr=errors) as run:
        mark = f"{MARK}={run.mark}"
        wait_until(lambda: len(programs_with(mark, program)) == 2, "the ranks run", DEADLINE_S)
        run.send_signal(signal.SIGTERM)
        run.wait(DEADLINE_S)
        assert b"pgdb run ends it by SIGKILL" in said.read_bytes()
    assert "SIGTERM" in json.loads(file.read_bytes())["cause"]["what"]


@pytest.mark.parametrize("name", MPIS)
def test_a_rank_that_leaves_without_finalize_is_the_cause(
    name: str, builder: Builder, tmp_path: Path
) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "left_behind.c")
    cause, stops = run_unfinished(tmp_path, "--", *mpi.line(3, program, "unfinished"))
    # MPICH's launcher says nothing about such a rank.
    assert "without MPI_Finalize" in cause["what"]
    first = stops[0]
    assert (first["ranks"], first["is_first"], first["code"]) == ("1", True, 0)


@pytest.mark.parametrize("name", MPIS)
def test_a_rank_stops_before_it_leaves_without_finalize(
    name: str, builder: Builder, tmp_path: Path
) -> None:
    mpi = find_mpi(name)
    program = builder.build(mpi, "left_behind.c")
    line = mpi.line(3, program, "unfinished")
    cause, stops = run_unfinished(tmp_path, "--gdb", "--then", "kill", "--", *line)
    assert cause["what"].endswith("is about to die: exit status 0 without MPI_Finalize")
    assert cause["line"] == program.line("leave")
    assert not any(each.get("has_ended") for each in stops)


def test_a_rank_that_calls_finalize_at_its_exit_ends_well(builder: Builder, tmp_path: Path) -> None:
    mpi = find_mpi("openmpi")
    line = mpi.line(2, builder.build(mpi, "left_behind.c"), "late")
    done = run_pgdb("run", "--gdb", "--", *line, cwd=tmp_path, deadline_s=DEADLINE_S)
    assert done.status == 0, done.err


def run_unfinished(folder: Path, *words: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a job whose rank 1 leaves without MPI_Finalize; return the cause and the stops."""
    file = folder / "report.json"
    done = run_pgdb("run", "-o", file, *words, cwd=folder, deadline_s=DEADLINE_S)
    assert done.status == 6, done.err
    report = json.loads(file.read_bytes())
    cause = report["cause"]
    assert (cause["kind"], cause["who"]) == ("abort", "1")
    return cause, report["stops"]
