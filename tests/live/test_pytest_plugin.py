"""The fixture ``pgdb`` of pytest: the example deadlocks, and its failure has a report."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from pgdb.frontend.report import model
from tests.conftest import Build
from tests.support.programs import ROOT, Mpi

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

PASSING = """
def test_passes(pgdb):
    job = pgdb({line!r})
    assert job.set == job.ranks("0-1").set
"""
ENDED = """
def test_fails(pgdb):
    job = pgdb({line!r})
    job.close()
    assert False, "of another reason"
"""


def run_pytest(
    tests: Path, folder: Path, *options: str, changes: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run pytest in a process of its own, without the settings of this project."""
    own = folder / "pytest.ini"
    own.write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", own, tests, *options],
        cwd=folder,
        env=os.environ | (changes or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_the_example_deadlocks_and_has_a_report(mpi: Mpi, build: Build, tmp_path: Path) -> None:
    program = build("deadlock_tags.c")
    launcher = mpi.line(2, program)
    at = launcher.index("-n")
    done = run_pytest(
        ROOT / "examples" / "pytest",
        tmp_path,
        "--junitxml=junit.xml",
        changes={
            "DEADLOCK_TAGS": str(program.path),
            "MPIRUN": " ".join(launcher[:at]),
        },
    )
    assert done.returncode == 1, done.stdout + done.stderr
    section = done.stdout.partition("PGDB report")[2]
    assert "swap_with" in section and "who:   ranks 0-1" in section
    names = sorted(path.suffix for path in (tmp_path / "pgdb-reports").iterdir())
    assert names == [".html", ".json"]
    (written,) = (tmp_path / "pgdb-reports").glob("*.json")
    report = model.decode(written.read_bytes(), written.name)
    assert report.cause.kind == "hang" and report.cause.who == "0-1"
    properties = [
        each.attrib for each in ET.parse(tmp_path / "junit.xml").getroot().iter("property")
    ]
    assert {"name": "pgdb_report", "value": str(written)} in properties


@pytest.mark.parametrize(("source", "status"), [(PASSING, 0), (ENDED, 1)])
def test_no_report_without_a_failing_job(
    mpi: Mpi, build: Build, tmp_path: Path, source: str, status: int
) -> None:
    line = mpi.line(2, build("ring.c"))
    (tmp_path / "test_it.py").write_text(source.format(line=line))
    done = run_pytest(tmp_path / "test_it.py", tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert "PGDB report" not in done.stdout
    assert not (tmp_path / "pgdb-reports").exists()


def test_a_report_that_cannot_be_written_is_in_the_failure(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    line = mpi.line(2, build("ring.c"))
    (tmp_path / "test_it.py").write_text(f"def test_fails(pgdb):\n    pgdb({line!r})\n    1 / 0\n")
    (tmp_path / "reports").write_text("a file")
    done = run_pytest(tmp_path / "test_it.py", tmp_path, "--pgdb-reports=reports")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stdout
    assert "the report cannot be written" in done.stdout
    assert "who:   ranks 0-1" in done.stdout
