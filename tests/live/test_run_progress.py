"""Jobs that write nothing under ``pgdb run --hang-after``: they compute, or they poll."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.conftest import Build
from tests.support.processes import wait_until
from tests.support.programs import ROOT, Mpi
from tests.support.supervised import DEADLINE_S, Run

PYTHON = ROOT / "tests" / "programs" / "python_steady.py"
HANG = ("--hang-after", "4s", "--then", "kill")

pytestmark = [pytest.mark.mpi, pytest.mark.gdb]


@pytest.mark.any_mpi
@pytest.mark.parametrize("kind", ["registers", "child", "count", "turns"])
def test_a_job_that_computes_makes_progress(
    mpi: Mpi, build: Build, tmp_path: Path, kind: str
) -> None:
    program = build("steady.c", "-O2").path
    line = [sys.executable, PYTHON, kind] if kind in ("count", "turns") else [program, kind]
    log = tmp_path / "looks.log"
    with Run(tmp_path, *HANG, "--log", log, "--", *line) as run:
        # Each look is a session, and the log has its end.
        wait_until(
            lambda: log.exists() and '"event": "end"' in log.read_text(), "a look", DEADLINE_S
        )
        assert run.process.poll() is None
        run.process.send_signal(signal.SIGTERM)
        finished = run.finish()
    report = json.loads(run.report.read_bytes())
    seen = "make progress" if kind == "child" else "compute"
    said = [each["text"] for each in report["timeline"]]
    assert any(f"ranks {seen} without output" in each for each in said), said
    assert finished.status == 12, finished.err


@pytest.mark.any_mpi
@pytest.mark.parametrize("kind", ["poll", "sleep"])
def test_a_loop_of_python_that_polls_mpi_makes_no_progress(
    mpi: Mpi, tmp_path: Path, kind: str
) -> None:
    with Run(tmp_path, *HANG, "--", *mpi.line(2, sys.executable, PYTHON, kind)) as run:
        finished = run.finish()
    assert finished.status == 10, finished.err


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("pass", "has no way out, in main at python_steady.py:"),
        ("flag", "only another thread or process can end, in main at python_steady.py:"),
    ],
)
def test_a_loop_of_python_that_changes_nothing_is_no_progress(
    mpi: Mpi, tmp_path: Path, kind: str, words: str
) -> None:
    with Run(tmp_path, *HANG, "--", sys.executable, PYTHON, kind) as run:
        finished = run.finish()
    assert finished.status == 10, finished.err
    cause = json.loads(run.report.read_bytes())["cause"]
    assert f"rank 0 is in a loop that {words}" in cause["what"]


def test_a_hang_that_ends_a_job_is_no_good_end(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    # hydra leaves with status 0.
    line = mpi.line(2, build("unattended.c"), "recv")
    with Run(tmp_path, *HANG, "--", *line) as run:
        finished = run.finish()
    assert finished.status == 10, finished.err
    assert "ended well" not in finished.err


@pytest.mark.any_mpi
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("thread", "rank 0 has lost its first thread, while others live on"),
        ("pipe", "for rank 0, which does input or output in read on a pipe"),
    ],
)
def test_the_hang_says_why_a_rank_does_not_come(
    mpi: Mpi, build: Build, tmp_path: Path, kind: str, words: str
) -> None:
    line = mpi.line(2, build("unattended.c"), kind)
    with Run(tmp_path, *HANG, "--", *line) as run:
        finished = run.finish()
    assert finished.status == 10, finished.err
    assert words in json.loads(run.report.read_bytes())["cause"]["what"]


@pytest.mark.any_mpi
def test_a_rank_that_a_signal_has_stopped_stays_stopped(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("unattended.c").path
    with Run(tmp_path, "--hang-after", "4s", "--", *mpi.line(2, program, "recv")) as run:
        stopped = run.wait_ranks(2, program)[0]
        os.kill(stopped, signal.SIGSTOP)
        wait_until(lambda: run.report.exists(), "the report", DEADLINE_S)
        cause = json.loads(run.report.read_bytes())["cause"]
        wait_until(lambda: state_of(stopped) != "t", "the end of the look")
        assert state_of(stopped) == "T"
        run.process.kill()
    assert "stopped by a signal such as SIGSTOP" in cause["what"]


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
