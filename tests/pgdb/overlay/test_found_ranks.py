"""Every aggregator reports the ranks of its host, held ranks included."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pgdb.cores.search import CoreSearch, HostCores
from pgdb.jobs import environment_scan, hold
from pgdb.overlay.messages import Find, FoundRanks
from pgdb.proctable import RankProcess
from pgdb.ranks import RankSet
from tests.support.cores import core, rank_variables
from tests.support.wired_session import DEADLINE_S, WiredSession, run_wired


def test_every_aggregator_says_what_its_host_has(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def scan(selector: str) -> tuple[environment_scan.RankGroup, ...]:
        asked.append(selector)
        processes = tuple(
            RankProcess(rank=rank, host="h", pid=100 + rank, executable=f"/bin/app{rank}")
            for rank in (5, 3)
        )
        return (environment_scan.RankGroup(key="job:7", size=8, processes=processes),)

    monkeypatch.setattr(environment_scan, "scan", scan)

    async def test(session: WiredSession) -> None:
        front = session.front
        await session.start(*range(3), mpi=True)
        await front.wait_joined(range(3))
        front.root.down(Find(selector="job:7"))
        await front.wait(lambda: front.found.keys() == {0, 1, 2})
        ranks = FoundRanks(
            job="job:7",
            size=8,
            ranks=RankSet([3, 5]),
            pids=(103, 105),
            executable="/bin/app3",
        )
        assert {each.jobs for each in front.found.values()} == {(ranks,)}
        assert asked == ["job:7"] * 3

    run_wired(test, count=3)


def test_one_aggregator_of_a_host_reads_its_core_files(tmp_path: Path) -> None:
    (tmp_path / "core").write_bytes(core(environment=rank_variables(1, 2)))
    targets = (str(tmp_path),)

    async def test(session: WiredSession) -> None:
        front = session.front
        await session.start(*range(3), mpi=True)
        await front.wait_joined(range(3))
        front.root.down(Find(cores=CoreSearch(nodes=(1,), targets=targets)))
        await front.wait(lambda: front.found.keys() == {0, 1, 2})
        assert front.found[0].cores == front.found[2].cores == HostCores()
        cores = front.found[1].cores
        assert cores is not None
        (file,) = cores.listed
        front.found.clear()
        front.root.down(Find(cores=CoreSearch(nodes=(1,), paths={1: (file.path,)})))
        await front.wait(lambda: front.found.keys() == {0, 1, 2})
        cores = front.found[1].cores
        assert cores is not None
        assert [each.identity.rank for each in cores.cores if each.identity] == [1]

    run_wired(test, count=3)


def test_a_search_that_fails_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("pgdb.cores.host_search.search_host", fail)

    async def test(session: WiredSession) -> None:
        front = session.front
        await session.start(0, mpi=True)
        await front.wait_joined([0])
        front.root.down(Find(cores=CoreSearch(nodes=(0,), targets=("/none",))))
        await front.wait(lambda: 0 in front.found)
        assert front.found[0].cores == HostCores(error="RuntimeError: broken")

    run_wired(test, count=1)


def held_rank(mark: str, rank: int, size: int, shares: int) -> subprocess.Popen[bytes]:
    """Start the hold program as the rank of a job on this host; nothing receives its report."""
    environment = {
        "PATH": os.environ["PATH"],
        "PMI_RANK": str(rank),
        "PMI_SIZE": str(size),
        "MPI_LOCALRANKID": str(rank),
        "MPI_LOCALNRANKS": str(size),
    }
    with socket.create_server(("127.0.0.1", 0)) as unheard:
        # Rank 0 connects, and is held for as long as that link lasts.
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        line = [sys.executable, "-I", "-S", hold.__file__, mark, address, "60", str(shares), "--"]
        process = subprocess.Popen([*line, "true"], env=environment)
        if rank == 0:
            unheard.accept()[0].detach()
    return process


def test_held_ranks_are_shared_out_among_the_aggregators_of_their_host() -> None:
    mark = f"pgdb-test-{os.urandom(8).hex()}"
    ranks: list[subprocess.Popen[bytes]] = []

    async def test(session: WiredSession) -> None:
        front = session.front
        await session.start(0, 1, mpi=True)
        await front.wait_joined([0, 1])
        # Some are held before the search, some later.
        ranks.extend(held_rank(mark, rank, 5, 2) for rank in (0, 3))
        front.root.down(Find(mark=mark, shares=(0, 1), shares_per_host=2))
        ranks.extend(held_rank(mark, rank, 5, 2) for rank in (4, 1, 2))
        await front.wait(lambda: front.found.keys() == {0, 1})
        pids = dict(zip((0, 3, 4, 1, 2), (each.pid for each in ranks), strict=True))
        for node, share in ((0, (0, 1, 2)), (1, (3, 4))):
            (found,) = front.found[node].jobs
            assert found.ranks == RankSet(share) and found.size == 5
            assert found.pids == tuple(pids[rank] for rank in share)

    try:
        run_wired(test, count=2)
    finally:
        for each in ranks:
            each.send_signal(hold.RELEASE)
        assert [each.wait(DEADLINE_S) for each in ranks] == [0] * len(ranks)
