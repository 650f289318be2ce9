"""The scripts in examples/scripts find what their pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Build, StartJob
from tests.support.example_scripts import run_example
from tests.support.processes import wait_progress
from tests.support.programs import Mpi, Program

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 4


def test_example_where(ring: Program, start_job: StartJob) -> None:
    with start_job(RANKS, ring) as job:
        done = run_example("where.py", str(job.pid), "0-2")
        assert done.returncode == 0, done.stderr
        assert "main (" in done.stdout
        assert " of 3\n" in done.stdout
        wrong = run_example("where.py", str(job.pid), "0-9")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (3, 1), wrong.stderr
        assert "no rank 4-9" in wrong.stderr
        for pid in job.ranks.values():
            wait_progress(pid)


def test_example_outlier(mpi: Mpi, build: Build) -> None:
    program = build("wrong_value.f90")
    done = run_example("outlier.py", program.at("reduce"), "partial", *mpi.line(RANKS, program))
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == [
        "usual:    partial = 1 on [0-2]",
        "differs:  partial = 0.875 on [3]",
    ]
    none = run_example("outlier.py", program.at("reduce"), "nosuch", *mpi.line(RANKS, program))
    assert none.returncode == 1
    assert "failed on [0-3]" in none.stderr


def test_example_residuals(
    mpi: Mpi, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build("steps.c")
    monkeypatch.chdir(tmp_path)
    done = run_example(
        "residuals.py", program.at("record"), "now.residual", *mpi.line(RANKS, program)
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[:3] == [
        "40 hits on [0-3]",
        f"hit 7: now.residual = {1 / 7} on [0-2]",
        f"hit 7: now.residual = {1 / 7 + 0.25} on [3]",
    ]
    assert len((tmp_path / "residuals.csv").read_text().splitlines()) == 1 + RANKS * 40


def test_example_parting_takes_no_error_for_equal_values(mpi: Mpi, build: Build) -> None:
    program = build("steps.c")
    place, job = program.at("record"), mpi.line(RANKS, program)
    none = run_example("parting.py", place, "nosuch", *job)
    assert (none.returncode, none.stdout) == (3, ""), none.stdout
    assert none.stderr.startswith(f"parting.py: until-differ nosuch --at {place}: "), none.stderr
    assert 'No symbol "nosuch" in current context.' in none.stderr, none.stderr
    # A place that no rank reaches has no values.
    never = run_example("parting.py", f"{place} if 1 == 0", "now.residual", *job)
    assert (never.returncode, never.stdout) == (3, ""), never.stdout
    assert "no value of now.residual was compared" in never.stderr, never.stderr
