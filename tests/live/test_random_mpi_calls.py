"""Arguments of MPI calls in random programs, whose values are known by construction."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.support.call_programs import FORTRAN, PYTHON, built
from tests.support.call_stops import stops
from tests.support.call_truth import Score, compare
from tests.support.programs import find_mpi

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

CALLS = 25
LEAST = {"intel": 4}
"""Least ratio of exact and missing fields. Intel MPI keeps few arguments."""
MPIS = ("openmpi", "openmpi5", "mpich-system", "mpich", "intel")
PROGRAMS = (
    *((name, *program) for name in MPIS for program in (("c", "-O2"), ("cpp", "-O0"))),
    *((name, interface, "-O2") for name in ("openmpi", "mpich-system") for interface in FORTRAN),
    *((name, PYTHON, "") for name in ("openmpi", "mpich")),
)


@pytest.mark.parametrize(("name", "language", "level"), PROGRAMS)
def test_random_arguments_are_exact_or_unknown(
    name: str, language: str, level: str, tmp_path: Path
) -> None:
    mpi = find_mpi(name)
    program, truth = built(mpi, language, [level, "-g"], Random(29), CALLS, tmp_path)
    score = Score(wrong=[])
    for number, status in stops(mpi, program, CALLS):
        assert status.call is not None
        compare(status.call, truth[number], score)
    assert score.wrong == []
    assert score.exact >= LEAST.get(name, 8) * score.missing, score
