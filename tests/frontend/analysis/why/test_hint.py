"""The hint of an attach: some ranks were stopped in calls of MPI that can wait."""

from __future__ import annotations

import pytest

from pgdb.frontend.analysis.why.hint import hint
from pgdb.merge.classes import EquivalenceClass
from pgdb.ranks import RankSet
from pgdb.records import Exit, Failure, Frame, Record, Stop

EXPLAINS = "of MPI; if the job hangs, 'why' explains"


def stopped(*functions: str, inside: str = "", dying: str = "") -> list[EquivalenceClass[Record]]:
    return [
        EquivalenceClass(
            RankSet([rank]),
            Stop(
                reason="attached",
                frame=Frame(level=0, function=function),
                inside=inside,
                dying=dying,
            ),
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
        stopped("PMPI_Testall", "MPI_Iprobe"),
        stopped("PMPI_Mrecv", "MPI_Session_finalize", "PMPI_File_write_at"),
    ],
)
def test_ranks_in_mpi_may_hang(classes: list[EquivalenceClass[Record]]) -> None:
    assert hint(classes) == f"all ranks are in calls {EXPLAINS}"


ELSEWHERE = EquivalenceClass(RankSet.parse("4-5"), Exit(code=0))
LOST = EquivalenceClass(RankSet([6]), Failure(message="no debugger"))


@pytest.mark.parametrize(
    ("classes", "who"),
    [
        (stopped("PMPI_Recv"), "rank 0 is in a call"),
        (stopped("PMPI_Recv", "solve"), "rank 0 is in a call"),
        (stopped("PMPI_Recv", "PMPI_Recv", "solve"), "ranks 0-1 are in calls"),
        ([*stopped("PMPI_Recv", "PMPI_Recv"), ELSEWHERE, LOST], "all ranks are in calls"),
    ],
)
def test_one_rank_that_waits_is_enough(classes: list[EquivalenceClass[Record]], who: str) -> None:
    assert hint(classes) == f"{who} {EXPLAINS}"


@pytest.mark.parametrize(
    "classes",
    [
        [],
        stopped("main", "main", inside="nanosleep"),
        stopped("PMPI_Isend", "PMPI_Irecv"),
        stopped("PMPI_Comm_rank", "PMPI_Bcast_init", "MPIR_Wait_state"),
        [ELSEWHERE, LOST],
        [*stopped("PMPI_Recv"), *stopped("raise", dying="SIGABRT")],
    ],
)
def test_no_rank_waits(classes: list[EquivalenceClass[Record]]) -> None:
    assert hint(classes) == ""
