"""The hint of an attach: all ranks were stopped in calls of MPI that can wait."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.why.hint import may_hang
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Exit, Frame, Record, Stop


def stopped(*functions: str, inside: str = "") -> list[EquivalenceClass[Record]]:
    return [
        EquivalenceClass(
            RankSet([rank]),
            Stop(reason="attached", frame=Frame(level=0, function=function), inside=inside),
        )
        for rank, function in enumerate(functions)
    ]


@pytest.mark.parametrize(
    "classes",
    [
        stopped("PMPI_Recv", "MPI_Barrier"),
        stopped("main", "main", inside="PMPI_Waitall"),
        stopped("pmpi_recv__", "mpi_allreduce_"),
        stopped("PMPI_Finalize", "PMPI_Comm_split"),
    ],
)
def test_ranks_in_mpi_may_hang(classes: list[EquivalenceClass[Record]]) -> None:
    assert may_hang(classes)


@pytest.mark.parametrize(
    "classes",
    [
        [],
        stopped("PMPI_Recv"),
        stopped("PMPI_Recv", "solve"),
        stopped("main", "main", inside="nanosleep"),
        stopped("PMPI_Isend", "PMPI_Test"),
        [*stopped("PMPI_Recv", "PMPI_Recv"), EquivalenceClass(RankSet([2]), Exit(code=0))],
    ],
)
def test_ranks_elsewhere_do_not_all_wait(classes: list[EquivalenceClass[Record]]) -> None:
    assert not may_hang(classes)
