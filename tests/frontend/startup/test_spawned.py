"""The search for the worlds of MPI_Comm_spawn, as ranks stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdb.errors import StartError
from pgdb.frontend.api.notifications import RankEvents
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup import spawned
from pgdb.frontend.startup.overlay import Overlay
from pgdb.frontend.startup.site import WorldPlaces
from pgdb.frontend.startup.spawned import SpawnedWorlds
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay import addresses
from pgdb.overlay.messages import Hello
from pgdb.proctable import ProcTable, RankProcess, World
from pgdb.ranks import RankSet
from pgdb.records import Stop
from tests.fakes.bare_session import BareSession

DEADLINE_S = 20.0


class SpawningSession(BareSession):
    """A session that records what its worlds do."""

    def __init__(self) -> None:
        super().__init__()
        self.options = SessionOptions(spawned="attach")
        self.all_worlds = self.ending = self
        self.source: object = None
        self.joined: asyncio.Queue[int] = asyncio.Queue()
        self.at_end: list[Coroutine[Any, Any, None]] = []

    def add(self, work: Coroutine[Any, Any, None]) -> None:
        self.at_end.append(work)

    async def join(self, worlds: list[World]) -> None:
        for each in worlds:
            self.joined.put_nowait(each.number)

    def stop(self) -> None:
        record = EquivalenceClass(ranks=RankSet.parse("0"), record=Stop(reason="breakpoint-hit"))
        for listener in self.listeners:
            listener(RankEvents(classes=(record,)))


class Looking(SpawnedWorlds):
    """A search that finds what a test says; each one waits until the test lets it go on."""

    def __init__(self, session: SpawningSession) -> None:
        super().__init__(cast("Session", session), cast("Overlay", None))
        self.found: asyncio.Queue[tuple[World, ...] | StartError] = asyncio.Queue()
        self.count = 0

    async def look(self) -> tuple[World, ...]:
        self.count += 1
        found = await self.found.get()
        if isinstance(found, StartError):
            raise found
        return found


def world(number: int, size: int, here: int | None = None) -> World:
    """Return a world of which *here* ranks are there."""
    count = size if here is None else here
    processes = tuple(
        RankProcess(rank=rank, host="n1", pid=100 * number + rank, executable="")
        for rank in range(count)
    )
    return World(number=number, size=size, processes=processes)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawned, "LEAST_PAUSE_S", 0.01)


def run(test: Callable[[SpawningSession, Looking], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        session = SpawningSession()
        looking = Looking(session)
        looking.watch()
        async with asyncio.timeout(DEADLINE_S):
            await test(session, looking)
            for each in session.at_end:
                await each

    asyncio.run(bounded())


def test_a_stop_within_the_pause_behind_a_search_is_followed_by_another_one() -> None:
    async def test(session: SpawningSession, looking: Looking) -> None:
        session.stop()
        looking.found.put_nowait((world(1, 2),))
        assert await session.joined.get() == 1
        session.stop()
        session.stop()
        looking.found.put_nowait((world(1, 2), world(2, 3)))
        assert await session.joined.get() == 2
        assert looking.count == 2

    run(test)


def test_a_stop_during_a_search_is_followed_by_another_one() -> None:
    async def test(session: SpawningSession, looking: Looking) -> None:
        session.stop()
        while not looking.count:
            await asyncio.sleep(0)
        session.stop()
        looking.found.put_nowait(())
        looking.found.put_nowait((world(1, 2),))
        assert await session.joined.get() == 1

    run(test)


def test_a_world_whose_ranks_are_still_being_started_is_looked_at_again() -> None:
    async def test(session: SpawningSession, looking: Looking) -> None:
        session.stop()
        looking.found.put_nowait((world(1, 3, 1), world(2, 2)))
        assert await session.joined.get() == 2
        looking.found.put_nowait((world(1, 3, 2), world(2, 2)))
        looking.found.put_nowait((world(1, 3), world(2, 2)))
        assert await session.joined.get() == 1
        assert looking.count == 3

    run(test)


def test_a_world_some_of_whose_ranks_have_ended_joins_nevertheless() -> None:
    async def test(session: SpawningSession, looking: Looking) -> None:
        session.stop()
        for _ in range(2):
            looking.found.put_nowait((world(1, 3, 2),))
        assert await session.joined.get() == 1
        assert looking.count == 2

    run(test)


def test_a_world_that_is_known_is_not_reported() -> None:
    async def test(session: SpawningSession, looking: Looking) -> None:
        session.options = SessionOptions(spawned="notify")
        looking.take_known([world(2, 3)])
        session.stop()
        looking.found.put_nowait((world(1, 2), world(2, 3)))
        while not session.notes:
            await asyncio.sleep(0)
        (note,) = session.notes
        assert "world 1 has 2 ranks" in note and "world 2" not in note

    run(test)


def test_a_search_that_fails_is_reported_and_the_next_stop_tries_again() -> None:
    async def test(session: SpawningSession, looking: Looking) -> None:
        session.stop()
        looking.found.put_nowait(StartError("no answer"))
        while not session.notes:
            await asyncio.sleep(0)
        session.stop()
        looking.found.put_nowait((world(1, 2),))
        assert await session.joined.get() == 1
        assert session.notes == ["further ranks of MPI_Comm_spawn cannot be looked for: no answer"]

    run(test)


def test_the_end_of_the_session_ends_the_search() -> None:
    async def test(session: SpawningSession, looking: Looking) -> None:
        session.stop()
        while not looking.count:
            await asyncio.sleep(0)
        for each in session.at_end:
            await each
        session.at_end.clear()
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    run(test)


@pytest.mark.parametrize("known", [(), ("n1",), ("n1", "n2")])
def test_hosts_whose_aggregators_are_lost_get_no_further_ones(
    monkeypatch: pytest.MonkeyPatch, known: tuple[str, ...]
) -> None:
    """None of the known ones is in the tree."""
    started: list[str] = []

    async def world_places(launcher_pid: int) -> WorldPlaces:
        return WorldPlaces("family", ("n1", "n2"))

    async def add_hosts(hosts: list[str], *, job_pid: int) -> dict[str, str]:
        started.extend(hosts)
        return {}

    async def found_parts(overlay: Overlay, selector: str) -> list[object]:
        return []

    hellos = {
        node: Hello(version=1, release="", node=node, host=host, pid=1)
        for node, host in enumerate(known)
    }
    overlay = SimpleNamespace(
        site=SimpleNamespace(world_places=world_places),
        root=SimpleNamespace(known=hellos),
        nodes={},
        add_hosts=add_hosts,
    )
    monkeypatch.setattr(spawned, "found_parts", found_parts)
    monkeypatch.setattr(addresses, "resolve", lambda host: None)
    session = SimpleNamespace(
        all_worlds=SimpleNamespace(first_number=0, known=[]),
        table=ProcTable(processes=(), source="a table"),
        note=started.append,
    )
    worlds = SpawnedWorlds(cast("Session", session), cast("Overlay", overlay))
    assert asyncio.run(worlds.look()) == ()
    assert started == [host for host in ("n1", "n2") if host not in known]
