"""``--script-log``: the program of a session runs, and its ranks give the same answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Build, StartJob
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]


def run_program(path: Path, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, path, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_program_of_a_launched_job(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    crash, path = build("crash.c"), tmp_path / "session.py"
    finished = run_pgdb(
        "launch",
        "--batch",
        "--script-log",
        path,
        *ex(f"break {crash.at('together')}", "continue", "proc 1 print victim + 40"),
        *ex("stat rank", "delete", "continue", "bt", "tree", "display victim", "print nosuch"),
        *mpi.line(3, crash, "2"),
    )
    assert "SIGSEGV" in finished.out
    text = path.read_text(encoding="utf-8")
    assert "interrupt" not in text, "PGDB interrupts the others by itself, here and there"
    assert path.stat().st_mode & 0o077 == 0
    out = run_program(path)
    assert "[1] victim + 40 = 42" in out
    assert "SIGSEGV, Segmentation fault" in out
    assert 'No symbol "nosuch"' in out


def test_the_program_of_a_job_that_hangs_goes_on(
    mpi: Mpi, build: Build, start_job: StartJob, tmp_path: Path
) -> None:
    path, program = tmp_path / "session.py", build("deadlock_tags.c")
    with start_job(2, program) as job:
        finished = run_pgdb(
            "attach",
            "--batch",
            "--script-log",
            path,
            *ex("continue &", "interrupt", "why --look", "print value"),
            job.pid,
        )
        assert finished.status == 0, finished.out + finished.err
    with start_job(2, program) as job:
        out = run_program(path, job.pid)
    assert "interrupted in" in out
    assert "MPI_Sendrecv" in out
    assert "value = " in out
