"""Sums of containers, and values behind references, of a real program in C++."""

from __future__ import annotations

import re

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi
from tests.support.shown_answers import shown
from tests.support.terminal import ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

SUMS = {
    "line": "15000 numbers on 3 ranks, min -5 [1], max 1 [0-2]",
    "counts": "6 numbers on 3 ranks, min 2 [0-2], max 7 [1]",
    "heights": "900 numbers on 3 ranks, min 2 [0-2], max 8 [1]",
    "limit": "1 number, min 0.5 [1], max 0.5 [1]",
    "rows": "9 numbers on 3 ranks, min 1 [0-2], max 30 [1]",
    "ragged": "9 numbers on 3 ranks, min 1 [0-2], max 9 [1]",
    "deep": "18 numbers on 3 ranks, min 1 [0-2], max 9 [1]",
    "packed": "12 numbers on 3 ranks, min 1 [0-2], max 9 [1]",
    "abs(waves)": "30 numbers on 3 ranks, min 5 [0-2], max 10 [1]",
    "imag(waves)": "30 numbers on 3 ranks, min 4 [0-2], max 8 [1]",
}


def test_stat_of_containers(mpi: Mpi, build: Build) -> None:
    program = build("sums.cpp")
    commands = (f"tbreak {program.at('look')}", "c", "up", *(f"stat {each}" for each in SUMS))
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 0, finished.out
    for name, expected in SUMS.items():
        first, extremes = shown(finished.out, f"stat {name}")[:2]
        said = f"{first} {' '.join(extremes.split())}"
        found = re.fullmatch(r"\[0-2\] .*: (.*) (min .*) (max .*)", said)
        assert found is not None, said
        assert ", ".join(found.groups()) == expected, name


def test_stat_of_arrays_without_elements_and_of_numbers_that_are_rounded(
    mpi: Mpi, build: Build
) -> None:
    program = build("sums.cpp")
    names = ("none", "no_rows", "wide", "wide[1]@2")
    commands = (f"tbreak {program.at('look')}", "c", "up", *(f"stat {each}" for each in names))
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    for name in names[:2]:
        # GDB shows such an array as its address, which is no number of it.
        assert shown(finished.out, f"stat {name}")[0] == f"[0-2] {name}: 0 numbers"
    wide = " ".join(shown(finished.out, "stat wide"))
    assert "of the numbers as doubles, which do not hold all their digits" in wide
    assert "do not hold" not in " ".join(shown(finished.out, "stat wide[1]@2"))


def test_complex_numbers_need_a_part(mpi: Mpi, build: Build) -> None:
    program = build("sums.cpp")
    commands = ("set stop-on-error off", f"tbreak {program.at('look')}", "c", "up", "stat waves")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    (line,) = shown(finished.out, "stat waves")
    assert "write abs(waves), real(waves) or imag(waves)" in line


def test_a_reference_shows_the_members_of_a_virtual_base(mpi: Mpi, build: Build) -> None:
    program = build("sums.cpp")
    commands = (f"tbreak {program.at('look')}", "c", "p left", "p left.id", "info args", "bt 1")
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 0, finished.out
    for command in ("p left", "p left.id", "info args"):
        lines = " ".join(shown(finished.out, command))
        assert re.search(r"\[0,2\] .*\b3 .*\[1\] .*\b4  <-- differs", lines), lines
    assert "look (left=..., size=3)" in shown(finished.out, "bt 1")[1]


def test_a_place_in_a_long_deque(mpi: Mpi, build: Build) -> None:
    program = build("sums.cpp")
    commands = (
        f"tbreak {program.at('look')}",
        "c",
        "up",
        "p line",
        "p line[4321]",
        "p heights[299]",
    )
    finished = run_pgdb("launch", "--batch", *ex(*commands), *mpi.line(3, program))
    assert finished.status == 0, finished.out
    assert shown(finished.out, "p line")[1].split()[:3] == ["[4321]", "[0,2]", "1"]
    assert "[1]   line[4321] = -5  <-- differs  @2" in finished.out
    assert "[1]   heights[299] = 8  <-- differs  @2" in finished.out
