"""The options that the tests of this project add to pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import ROOT


def run_pytest(tests: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests with the options of this project."""
    return subprocess.run(
        (
            *(sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"),
            *(f"--rootdir={tests.parent}", *arguments, str(tests)),
        ),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_failed_tests_are_written_once_each(tmp_path: Path, workers: int) -> None:
    """CI repeats up to three failed tests: ids that stood there twice were too many."""
    tests = tmp_path / "test_two.py"
    tests.write_text("def test_good(): ...\ndef test_bad(): raise ValueError('expected')\n")
    failed = tmp_path / "failed"
    ran = run_pytest(tests, "-n", str(workers), f"--failed-to={failed}")
    assert ran.returncode == 1, ran.stdout + ran.stderr
    (line,) = failed.read_text().splitlines()
    assert line.endswith("test_two.py::test_bad")


@pytest.mark.slow
def test_a_crashed_worker_breaks_the_run_off(tmp_path: Path) -> None:
    """CI may not take the tests that had not run by then for passed."""
    tests = tmp_path / "test_crash.py"
    tests.write_text(
        "import os, pytest\n"
        "@pytest.mark.parametrize('number', range(100))\n"
        "def test_one(number): assert number != 40 or os._exit(1)\n"
    )
    ran = run_pytest(tests, "-n", "2", "--dist", "loadgroup")
    assert ran.returncode == pytest.ExitCode.INTERRUPTED, ran.stdout + ran.stderr
    assert "crashed while running" in ran.stdout
