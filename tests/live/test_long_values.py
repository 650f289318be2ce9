"""Verdicts about values of which GDB prints only a part, in C, C++ and Fortran."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pgdb
from pgdb.frontend.analysis.whole_values import is_partial
from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

LIMITS = ("set print elements 10", "set print repeats 2", "set max-value-size 1024")
"""Settings of GDB for showing, which no verdict depends on."""
GRID = (
    "weights[2500]",
    "values[140000]",
    "plane[49][7]",
    "queue[4200]",
    "rows[1].columns[3999]",
    "name",
)
"""Places in ``grid`` that differ on rank 2, in containers longer than GDB's text of it."""


def outputs(out: str) -> dict[str, str]:
    """Return the output of each command of a batch run."""
    parts = re.split(r"^\(pgdb [\d,-]+\) (.*)\n", out, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("limits", [(), LIMITS], ids=["usual", "small"])
def test_a_difference_behind_the_printed_part_is_found(
    mpi: Mpi, build: Build, limits: tuple[str, ...]
) -> None:
    program = build("long_values.cpp")
    places = {
        "field": "[500]",
        "big": "[131071]",
        "counts": "[399]",
        "wide": "[299]",
        "outer": ".inner[2].cells[250]@2",
        "numbers": "[900]",
        "queue": "[280]",
        "table": "[290]",
    }
    asked = [f"{word} {name}" for name in places for word in ("assert", "print")]
    others = ("assert text", "assert word", "compare text 0 with 2", "compare big 0 with 1")
    bounds = ("assert big in 0..8", "assert big in 0..9", "assert positive > 0")
    kept = ("save kept big", "compare big with kept", "compare alike with 2")
    kept = (*kept, "info locals", "display numbers", "print text", "expand")
    commands = (f"tbreak {program.at('look')}", "c", *limits, *asked, *others, *bounds, *kept)
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    said = outputs(finished.out)
    for name, place in places.items():
        for word in ("assert", "print"):
            lines = said[f"{word} {name}"].splitlines()
            found = [line for line in lines if line.split()[:2] == [place, "[0-1,3]"]]
            assert found, (name, said[f"{word} {name}"])
        assert "FAILED on [2] (1 of 4)" in said[f"assert {name}"]
    assert "!" in said["expand"], finished.out
    assert "!" in said["assert text"] and "y" in said["assert word"], finished.out
    assert "2 values on one side only" in said["compare text 0 with 2"]
    assert said["compare big 0 with 1"].startswith("big, [0] with [1]: the same values on")
    assert "[2] big[131071] = 9" in said["assert big in 0..8"]
    assert said["assert big in 0..9"] == "big is in 0..9: passed on [0-3]\n"
    assert "[2] positive[700] = -1" in said["assert positive > 0"]
    assert said["compare big with kept"] == "big, kept -> now: equal on [0-3]\n"
    assert "the same values on [0-1,3] and [2]" in said["compare alike with 2"]
    for name in places.keys() - {"outer"}:  # of which GDB can print all that differs
        assert f"\n     'print {name}' shows where they differ)" in said["info locals"], name
    assert "(compared as far as they are shown: numbers;" in said["display numbers"]
    assert finished.status == 1, finished.out


def test_a_structure_with_long_arrays_is_read_in_full_in_python(mpi: Mpi, build: Build) -> None:
    program = build("long_values.cpp")
    with pgdb.launch(mpi.line(4, program)) as job:
        job.break_at(program.at("look"))
        job.continue_(timeout_s=300).check()
        answer = job.evaluate_in_full("grid", timeout_s=300).check()
    found = {str(each.ranks): each.record for each in answer}
    assert found.keys() == {"0-1,3", "2"}
    assert not any(is_partial(each) for each in found.values())
    fields = answer.fields()
    for place, values in {
        ".weights[2500]": [0.5, 0.5, 0.25, 0.5],
        ".plane[49][7]": [0, 0, -4, 0],
        ".queue[4200]": [7, 7, 8, 7],
        ".rows[1].columns[3999]": [1, 1, 2, 1],
        ".rows[0].columns[0]@4000": [1, 1, 1, 1],
    }.items():
        assert fields[place].values.tolist() == values, place
    for place in (".values", ".name"):
        usual, _, odd, _ = fields[place].values.tolist()
        assert usual != odd
    # The text would be too long: its hash stands for it.
    assert "<elements with hash" in str(fields[".values"].values[0])


def test_long_containers_in_a_structure_are_looked_at_in_full(
    mpi: Mpi, build: Build, tmp_path: Path
) -> None:
    program = build("long_values.cpp")
    saved = tmp_path / "saved"
    asked = (
        "print grid",
        f"session save {saved}",
        "print $.cells",
        "assert *link",
        "compare grid 0 with 2",
    )
    asked = (*asked, "compare grid 0 with 1")
    commands = (f"tbreak {program.at('look')}", "c", *LIMITS, *asked)
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    said = outputs(finished.out)
    assert said["print $.cells"] == "[0-2] $.cells = 3\n", finished.out
    for command, name in (("print grid", "."), ("assert *link", "link->")):
        for place in GRID:
            found = re.search(rf"^ +{re.escape(name + place)} +\[0-1\] ", said[command], re.M)
            assert found, (command, place, said[command])
    compared = said["compare grid 0 with 2"]
    assert all(f" .{place} " in compared for place in GRID), compared
    assert said["compare grid 0 with 1"] == "grid, [0] with [1]: the same values on [0] and [1]\n"
    replayed = run_pgdb("replay", "--batch", *ex("print grid"), saved)
    assert outputs(replayed.out)["print grid"] == said["print grid"]


def test_a_nan_in_arrays_that_differ_all_over_is_shown_first(mpi: Mpi, build: Build) -> None:
    program = build("long_values.cpp")
    asked = ("print moved.places", "print moved", "assert moved", "save kept moved")
    asked = (*asked, "proc 1 set var moved.owners[26000]=-1", "compare moved with kept")
    commands = (f"tbreak {program.at('look')}", "c", *asked)
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(4, program))
    said = outputs(finished.out)
    summed = said["print moved.places"]
    assert "= 0 … 26999.5," in summed and "NaN on [2]" in summed, finished.out
    assert re.search(r"^ +\[25000\] +\[\d", summed, re.M), summed
    for command in ("print moved", "assert moved"):
        lines = said[command].splitlines()
        assert lines[1 + command.startswith("assert")].split()[0] == ".places[25000]", said[command]
        assert "(further elements differ in .places" in said[command]
    assert "[0-3] long parts are saved as hashes" in said["save kept moved"]
    compared = said["compare moved with kept"]
    assert compared.startswith("moved, kept -> now: 1 of 4 ranks differs"), compared
    assert "[0,2-3] equal" in compared and "[1]     .owners: std::vector of" in compared


@pytest.mark.parametrize("limits", [(), LIMITS], ids=["usual", "small"])
def test_long_arrays_of_fortran_are_looked_at_in_full(
    mpi: Mpi, build: Build, limits: tuple[str, ...]
) -> None:
    program = build("long_values.f90")
    asked = ("assert heap > 0", "assert part", "up", "assert field >= -1", "print plane")
    asked = (*asked, "compare heap with 2", "print chunk", "print chunk%density(59,58)")
    asked = (*asked, "set array-limit 1000", "print heap")
    commands = (f"tbreak {program.at('look')}", "c", *limits, *asked)
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    found = outputs(finished.out)
    assert "[2] heap(19999) = 0" in found["assert heap > 0"]
    assert found["assert part"] == "part is the same on all ranks: passed on [0-2]\n"
    assert "[2] field(700) = -5" in found["assert field >= -1"]
    assert re.search(r"^ +\(30,28\) +\[0-1\] 2 ", found["print plane"], re.M), finished.out
    assert re.search(r"^ +\(19999\) +\[0-1\] 1 ", found["compare heap with 2"], re.M)
    # The place has the array's own lower bounds, and can be typed.
    assert re.search(r"^ +%density\(59,58\) +\[0-1\] 1 ", found["print chunk"], re.M), finished.out
    assert re.search(r"^\[2\] .*= 2  ", found["print chunk%density(59,58)"], re.M), finished.out
    # Below the limit nobody says that the arrays are equal.
    last = found["print heap"]
    assert "the others were not looked at" in last or "array-limit is 1000" in last, last
