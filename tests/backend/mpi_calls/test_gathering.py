"""The order in which a root receives the parts of others, of each library."""

from __future__ import annotations

import pytest

from pgdb.backend.mpi_calls.gathering import is_begin
from pgdb.ranks import RankSet

BY_RANK = (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("family", "function", "ranks", "root", "awaited"),
    [
        ("openmpi", "MPI_Gather", BY_RANK, 0, "1"),
        ("openmpi", "MPI_Gatherv", BY_RANK, 2, "0"),
        ("openmpi", "MPI_Reduce", BY_RANK, 0, "1-2"),
        ("openmpi", "MPI_Reduce", BY_RANK, 0, "3"),
        ("mpich", "MPI_Gather", BY_RANK, 2, "3"),
        ("mpich", "MPI_Reduce", BY_RANK, 3, "0"),
        ("mpich", "MPI_Gatherv", BY_RANK, 0, "1-3"),
        # The order of the members counts, and not that of their numbers.
        ("mpich", "MPI_Reduce", (3, 2, 1, 0), 3, "2"),
    ],
)
def test_a_root_at_its_first_receive_has_taken_nothing(
    family: str, function: str, ranks: tuple[int, ...], root: int, awaited: str
) -> None:
    assert is_begin(family, function, ranks, root, RankSet.parse(awaited))


@pytest.mark.parametrize(
    ("family", "function", "ranks", "root", "awaited"),
    [
        ("openmpi", "MPI_Gather", BY_RANK, 0, "2"),
        # By a tree it would have begun with rank 3, else with rank 0.
        ("openmpi", "MPI_Gather", BY_RANK, 2, "3"),
        ("openmpi", "MPI_Gatherv", BY_RANK, 2, "3"),
        # Rank 1 is the last one, or has the parts of all others.
        ("openmpi", "MPI_Reduce", BY_RANK, 0, "1"),
        ("openmpi", "MPI_Reduce", BY_RANK, 2, "3"),
        ("openmpi", "MPI_Scan", BY_RANK, 0, "1"),
        ("mpich", "MPI_Gatherv", BY_RANK, 0, "1"),
        ("mpich", "MPI_Reduce", BY_RANK, 0, "2"),
        # The other one of two ranks is all that is missing, whoever is wrong.
        ("mpich", "MPI_Reduce", (0, 1), 0, "1"),
        ("mpich", "MPI_Reduce", (0, 1, None), 5, "1"),
    ],
)
def test_a_root_behind_its_first_receive_may_have_taken_parts(
    family: str, function: str, ranks: tuple[int, ...], root: int, awaited: str
) -> None:
    assert not is_begin(family, function, ranks, root, RankSet.parse(awaited))
