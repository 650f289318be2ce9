"""Arguments of MPI calls in random programs, whose values are known by construction."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.support.call_generator import Generator
from tests.support.call_stops import stops
from tests.support.call_truth import Score, compare
from tests.support.programs import find_mpi

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

CALLS = 25
LEAST = {"intel": 4}
"""Least ratio of exact and missing fields. Intel MPI keeps few arguments."""


@pytest.mark.parametrize("name", ["openmpi", "openmpi5", "mpich-system", "mpich", "intel"])
@pytest.mark.parametrize(("language", "level"), [("c", "-O2"), ("cpp", "-O0")])
def test_random_arguments_are_exact_or_unknown(
    name: str, language: str, level: str, tmp_path: Path
) -> None:
    mpi = find_mpi(name)
    compiler = mpi.compilers.get(f".{language}")
    if compiler is None:
        pytest.skip(f"this machine's {name} has no compiler for C++")
    text, truth = Generator(Random(29), is_cpp=language == "cpp").program(CALLS)
    source, program = tmp_path / f"calls.{language}", tmp_path / "calls"
    source.write_text(text, encoding="utf-8")
    flags = [*mpi.flags, level, "-g", "-w"]
    subprocess.run([compiler, *flags, "-o", str(program), str(source)], check=True)
    score = Score(wrong=[])
    for number, status in stops(mpi, program, CALLS):
        assert status.call is not None
        compare(status.call, truth[number], score)
    assert score.wrong == []
    assert score.exact >= LEAST.get(name, 8) * score.missing, score
