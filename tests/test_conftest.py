"""The options that the tests of this project add to pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_failed_tests_are_written_once_each(tmp_path: Path, workers: int) -> None:
    """CI repeats up to three failed tests: ids that stood there twice were too many."""
    tests = tmp_path / "test_two.py"
    tests.write_text("def test_good(): ...\ndef test_bad(): raise ValueError('expected')\n")
    failed = tmp_path / "failed"
    ran = subprocess.run(
        (
            *(sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"),
            *("-n", str(workers), f"--failed-to={failed}", f"--rootdir={tmp_path}", str(tests)),
        ),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    (line,) = failed.read_text().splitlines()
    assert line.endswith("test_two.py::test_bad")
