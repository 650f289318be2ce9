"""The applications of examples/applications: PGDB finds the fault that one rank was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.conftest import Build
from tests.support.programs import Mpi, Program
from tests.support.terminal import Finished, ex, run_pgdb

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 4


def launched(
    mpi: Mpi, program: Program, commands: Sequence[str], variables: Mapping[str, str]
) -> Finished:
    """Run commands in batch on an application with these environment variables."""
    line = mpi.line(RANKS, program)
    return run_pgdb("launch", "--batch", *ex(*commands), *line, changes=variables)


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_nan_of_one_rank_in_containers(mpi: Mpi, build: Build, level: str) -> None:
    program = build("applications/blast.cpp", level)
    commands = (
        f"tbreak {program.at('inspect')}",
        "c",
        "assert domain.energy_.values_ < 1000",
        "print domain.energy_.values_[18]",
        "assert domain.clock_.step",
    )
    finished = launched(mpi, program, commands, {"BLAST_FAULT": "nan", "BLAST_FAULT_RANK": "2"})
    assert "domain.energy_.values_ < 1000: FAILED on [2] (1 of 4)" in finished.out
    # The place in the answer shows the same when it is typed.
    assert finished.out.count("[2] domain.energy_.values_[18] = nan(0x8000000000000)") == 2
    assert "domain.clock_.step is the same on all ranks: passed on [0-3]" in finished.out


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_wrong_columns_in_a_halo(mpi: Mpi, build: Build, level: str) -> None:
    program = build("applications/tides.f90", level)
    # In the first step with the fault, one halo is wrong and nothing else is.
    commands = (
        f"break {program.at('exchanged')} if step == 5",
        "c",
        "decompose tile%field%height --dims 48,6 --grid 4,1 --halo 2",
    )
    finished = launched(mpi, program, commands, {"TIDES_FAULT": "halo"})
    assert finished.status == 0, finished.out
    # Rank 1 owns columns 12 to 23, and rank 2 has copies of 22 and 23.
    assert "ranks disagree on 12 elements:" in finished.out, finished.out
    assert "[22,0] is 1.46 on rank 1, 1.44 in its halo on rank 2" in finished.out, finished.out


@pytest.mark.parametrize("level", ["-O0", "-O2"])
def test_nan_of_one_rank_in_an_array_with_a_halo(mpi: Mpi, build: Build, level: str) -> None:
    program = build("applications/tides.f90", level)
    commands = (
        f"break {program.at('inspect')}",
        "c",
        "assert tile%field%height < 100",
        "print tile%field%height(5,3)",
        "print tile%field%height",
    )
    finished = launched(mpi, program, commands, {"TIDES_FAULT": "nan", "TIDES_FAULT_RANK": "2"})
    assert "FAILED on [2] (1 of 4)" in finished.out, finished.out
    assert finished.out.count("[2] tile%field%height(5,3) = nan(0x8000000000000)") == 2
    assert "NaN on [2] at (5,3)" in finished.out, finished.out
