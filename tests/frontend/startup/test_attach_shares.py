"""The ranks that a user asks for when attaching, and the job that has been found."""

from __future__ import annotations

import pytest

from pgdb.errors import RankSetError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.discovery.found_job import FoundJob
from pgdb.frontend.startup.attach_shares import with_fewer_aggregators
from pgdb.frontend.startup.site import Located
from pgdb.proctable import ProcTable, RankProcess
from tests.support.answers import ranks


def located() -> Located:
    """Return a job of four ranks, two of which have ended."""
    table = ProcTable(
        processes=tuple(RankProcess(rank, "node1", 100 + rank, "/app") for rank in (0, 2)),
        source="a table",
    )
    job = FoundJob(
        launcher_pid=0,
        command=("mpirun", "app"),
        table=table,
        hosts=("node1",),
        selector="",
        slurm_job="",
        steps=(),
        job_size=4,
        local_ranks=table.ranks,
        ended=ranks("1,3"),
    )
    return Located(job=job, launcher=None)


def chosen(wanted: str, notes: list[str]) -> SessionOptions:
    options = SessionOptions(ranks=ranks(wanted), aggregators=2)
    return with_fewer_aggregators(located(), options, notes.append)


def test_a_host_has_at_most_one_aggregator_for_each_rank() -> None:
    notes: list[str] = []
    assert chosen("0,2", notes).aggregators == 2 and not notes
    assert chosen("2", notes).aggregators == 1
    assert notes == ["note: 1 aggregator on a host, not 2: one per rank"]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ("1-2", r"^\[1\] ended before the attach; the job still has \[0,2\]$"),
        ("1,7", r"^no rank 7; the job has 0,2$"),
    ],
)
def test_ranks_that_are_not_there_are_named_with_the_reason(wanted: str, error: str) -> None:
    with pytest.raises(RankSetError, match=error):
        chosen(wanted, [])
