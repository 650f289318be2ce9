"""Reports of held ranks that MPI_Comm_spawn has started."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.frontend.startup.held import HeldWorld
from pgdb.jobs import hold
from tests.support.hold_reports import Hearing, fields, report, run

WORLD = "prterun-n1-77@2"


def spawned(rank: int, size: int, pid: int, world: str = WORLD) -> bytes:
    """Return the report of a held rank of a further world."""
    texts = fields(rank, size)
    return report(*texts[:4], str(pid), *texts[5:], world)


def test_a_world_is_complete_when_each_of_its_ranks_is_held() -> None:
    async def test(hearing: Hearing) -> None:
        found: asyncio.Queue[HeldWorld] = asyncio.Queue()
        reports = hearing.reports
        reports.on_spawned = found.put_nowait
        first = await hearing.send(report(*fields(0, 2)))
        await reports.known.wait()
        of_world = await hearing.send(spawned(1, 2, 71))
        await hearing.send(spawned(0, 1, 80, "prterun-n1-77@3"))
        assert (await found.get()).pids == {0: 80}
        await hearing.send(spawned(0, 2, 70))
        world = await found.get()
        assert (world.pids, world.size, world.program) == ({0: 70, 1: 71}, 2, "./app")
        # Further worlds do not change what is known of the first.
        assert (reports.size, len(reports.hosts)) == (2, 1)
        world.release()
        assert await of_world.read() == b""
        assert not first.at_eof()

    run(test)


def test_a_world_that_nobody_takes_is_not_held() -> None:
    async def test(hearing: Hearing) -> None:
        link = await hearing.send(spawned(0, 1, 70))
        assert await link.read() == b""

    run(test)


@pytest.mark.parametrize(
    ("namespace", "is_spawned"),
    [
        ("2977431553", False),
        ("2977431554", True),
        ("prterun-n1-77@1", False),
        ("prterun-n1-77@12", True),
        ("slurm.pmix.17.0", False),
        ("", False),
    ],
)
def test_open_mpi_numbers_its_worlds(namespace: str, is_spawned: bool) -> None:
    environment = {"PMIX_NAMESPACE": namespace, "OMPI_COMM_WORLD_RANK": "0"}
    assert hold.spawned_world(environment) == (namespace if is_spawned else "")
    # Another program of PMIx may number its namespaces otherwise.
    assert hold.spawned_world({"PMIX_NAMESPACE": namespace}) == ""
