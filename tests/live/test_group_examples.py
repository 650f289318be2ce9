"""The examples of groups in motion, on a program with a halo exchange in each step."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Build
from tests.support.programs import ROOT, Mpi, Program
from tests.support.terminal import ex, run_json, run_pgdb

pytestmark = [pytest.mark.mpi]

RUN_TIMEOUT_S = 600.0
ROWS = 1000
ODD, WHEN = 7, 11


@pytest.fixture
def halo(build: Build) -> Program:
    return build("halo.c", "-lm")


def run_example(name: str, *args: object, cwd: Path, errors: str = "") -> tuple[int, list[str]]:
    """Run an example; return its status, and its output by lines."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "scripts" / name), *map(str, args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
        cwd=cwd,
    )
    assert done.stderr == errors, done.stderr
    return done.returncode, done.stdout.splitlines()


def test_the_iteration_in_which_rank_7_parts(mpi: Mpi, halo: Program, tmp_path: Path) -> None:
    job = mpi.line(8, halo, "40", str(ODD), str(WHEN))
    place = halo.at("hit")
    status, lines = run_example("parting.py", place, "residual", *job, cwd=tmp_path)
    assert status == 1
    assert lines[0].startswith(f"hit {WHEN + 1} of {place}: most ranks have "), lines
    assert lines[1].startswith(f"  [{ODD}] "), lines
    assert re.fullmatch(rf"after hit {WHEN}: \d+ steps, then parted", lines[2]), lines
    assert lines[-1] == f"  [{ODD}] main at {halo.at('odd')}", lines


def test_two_ranks_step_through_a_halo_exchange(mpi: Mpi, halo: Program, tmp_path: Path) -> None:
    """The two may wait for their neighbors, which are held."""
    status, lines = run_example(
        "two_ranks.py", halo.at("receive"), 1, 2, *mpi.line(4, halo, "40"), cwd=tmp_path
    )
    assert status == 0
    assert lines[0] == "held: [0,3]"
    waits = halo.line("wait")
    assert f"[1-2] exchange at halo.c:{waits}" in lines, lines
    # Messages of held ranks that came before the hold do not keep them back.
    end = r"waiting: \[1-2\] still from exchange at halo.c:\d+|parted|50 steps"
    assert re.fullmatch(rf"(?:{end}); held: \[0,3\]", lines[-1]), lines


@pytest.mark.any_mpi
def test_residuals_of_1000_hits_are_a_table(mpi: Mpi, halo: Program, tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="the table is a DataFrame of pandas")
    job = mpi.line(4, halo, str(ROWS + 100), "3", str(WHEN))
    place = halo.at("hit")
    status, lines = run_example("residuals.py", place, "residual", *job, cwd=tmp_path)
    assert status == 1
    assert lines[0] == f"{ROWS} hits on [0-3]"
    assert f"hit {WHEN + 1}: residual = " in lines[1] and lines[1].endswith("on [0-2]"), lines
    with (tmp_path / "residuals.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * ROWS
    by_rank = [[float(row["residual"]) for row in rows if row["rank"] == rank] for rank in "03"]
    differing = [row for row, pair in enumerate(zip(*by_rank, strict=True)) if pair[0] != pair[1]]
    assert differing == list(range(WHEN, ROWS))


def test_a_table_that_cannot_be_written_is_an_error(
    mpi: Mpi, halo: Program, tmp_path: Path
) -> None:
    pytest.importorskip("pandas", reason="the table is a DataFrame of pandas")
    (tmp_path / "residuals.csv").mkdir()  # root can write into any file of another user
    status, lines = run_example(
        "residuals.py",
        *(halo.at("hit"), "residual", *mpi.line(2, halo, "5")),
        cwd=tmp_path,
        errors="residuals.py: the table is not written: residuals.csv: Is a directory; start this "
        "in a folder in which you can write\n",
    )
    assert status == 3 and lines[0] == "5 hits on [0-1]", lines


@pytest.mark.any_mpi
def test_collected_values_are_written_and_plotted(mpi: Mpi, halo: Program, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy", reason="the values are arrays of NumPy")
    file, picture = tmp_path / "residuals.npz", tmp_path / "residuals.svg"
    commands = ex(
        f"trace {halo.at('hit')} residual --every 2 --first 10",
        f"break {halo.at('hit')} if step == 30",
        "continue",
        f"dump trace:1:residual {file}",
        "plot trace:1:residual --line",
        f"plot trace:1:residual -o {picture}",
    )
    line = mpi.line(3, halo, "40", "2", str(WHEN))
    done = run_pgdb("launch", "--batch", *commands, *line)
    assert done.status == 0, done.out + done.err
    assert "trace 1: 10 rows on [0-2]" in done.out.replace(" ('traces 1')", " on [0-2]"), done.out
    with numpy.load(file) as arrays:
        (values,) = (arrays[name] for name in arrays.files if arrays[name].ndim == 2)
    assert values.shape == (3, 10)
    assert (values[0] == values[1]).all() and (values[0] != values[2]).any()
    assert picture.stat().st_size


@pytest.mark.any_mpi
def test_a_run_is_compared_with_a_saved_one(mpi: Mpi, halo: Program, tmp_path: Path) -> None:
    path, place = tmp_path / "before.pgdb", halo.at("hit")
    command = f"until-differ residual --at {place}"
    first = mpi.line(3, halo, "40")
    done = run_pgdb("launch", "--batch", "--record", path, *ex(f"{command} --hits 20"), *first)
    assert f"residual is the same on [0-2] at all 20 hits of {place}" in done.out, done.out
    # All ranks take the same way in this run, which is not that of the saved one.
    other = mpi.line(3, halo, "40", "1", str(WHEN))
    finished = run_json("launch", *ex(f"{command} --from {path}"), *other)
    (line,) = finished.of_type("differ")
    assert (line["end"], line["hit"]) == ("differ", WHEN + 1), finished.out
    assert [each["ranks"] for each in line["differences"]] == ["1"]
    # An equal run ends where the saved one has no further value.
    done = run_pgdb("launch", "--batch", *ex(f"{command} --from {path}"), *first)
    assert f"whose values end before hit 21 of {place}" in done.out, done.out


@pytest.mark.any_mpi
def test_a_saved_run_has_the_values_that_were_printed(
    mpi: Mpi, halo: Program, tmp_path: Path
) -> None:
    path, place = tmp_path / "before.pgdb", halo.at("hit")
    steps = ["continue", "proc 0 print step", "proc 1 print step", "print step"] * 3
    commands = ex(f"break {place}", *steps)
    done = run_pgdb("launch", "--batch", "--record", path, *commands, *mpi.line(2, halo, "9"))
    assert done.status == 0, done.out
    command = f"until-differ step --at {place} --hits 3 --from {path}"
    done = run_pgdb("launch", "--batch", *ex(command), *mpi.line(3, halo, "9"))
    assert "has values of [0-1], and none of [2], which is not compared" in done.out + done.err
    assert f"step is as in the recording on [0-1] at all 3 hits of {place}" in done.out, done.out
