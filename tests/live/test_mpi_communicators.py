"""Members and peers of communicators of all kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.call_stops import stops
from tests.support.call_truth import Score, compare, truths
from tests.support.programs import Builder, find_mpi

pytestmark = [pytest.mark.mpi, pytest.mark.slow]

SPAWN_CALLS = 5
WITHOUT_SPAWN = ("mpich-system", "intel")
"""MPIs whose MPI_Comm_spawn fails: MPICH 4.0.2 with UCX has none, Intel MPI's crashes."""


@pytest.mark.parametrize("name", ["openmpi", "openmpi5", "mpich-system", "mpich", "intel"])
def test_members_and_peers_of_communicators_are_right(
    name: str, builder: Builder, tmp_path: Path
) -> None:
    """Ranks that another world has are no ranks here ("?"); all else has its value."""
    mpi = find_mpi(name)
    flags = ["-DNO_SPAWN"] if name in WITHOUT_SPAWN else []
    program = builder.build(mpi, "communicator_kinds.c", *flags)
    truth = [each for _, each in sorted(truths(program.source).items())]
    if name in WITHOUT_SPAWN:
        del truth[-SPAWN_CALLS:]
    score = Score(wrong=[])
    missing = []
    for number, status in stops(mpi, program.copied(tmp_path / "program").path, len(truth)):
        assert status.call is not None
        expected = truth[number - 1]
        before = score.missing
        compare(status.call, expected, score)
        if score.missing > before:
            missing.append(f"{number}: {expected}: {status.call}")
    assert score.wrong == []
    assert not missing, "\n".join(missing)
