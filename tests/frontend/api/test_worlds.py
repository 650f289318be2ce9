"""Ranks of another job that join a session: it never kills them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pgdb.errors import RankSetError, UsageError
from pgdb.frontend.api.core import Core
from pgdb.frontend.api.named_sets import NamedSets
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.worlds import Worlds
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.operation import Operation
from pgdb.overlay.router import Gathered
from pgdb.proctable import ProcTable, RankProcess, World
from pgdb.ranks import RankSet
from pgdb.records import Record, Stop

OWN, OTHER = RankSet.parse("0-1"), RankSet.parse("2-3")


def processes(first_pid: int) -> tuple[RankProcess, ...]:
    return tuple(RankProcess(rank, "node1", first_pid + rank, "/app") for rank in range(2))


class Job:
    """A session of ranks 0-1, and another job whose ranks wait to be attached to."""

    is_recorded = False

    def __init__(self) -> None:
        transport: Any = self
        session: Any = None
        self.out_of_reach = RankSet()
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()
        self.core = Core(session, SessionOptions(), transport)
        self.core.table = ProcTable(processes=processes(100), source="")
        self.core.state.add(OWN)
        recovery: Any = self
        self.sets = NamedSets(RankSet.parse, self._check)
        self.worlds = Worlds(self.core, recovery, lambda: self.sets)
        self.worlds.source = self
        self.further: tuple[World, ...] = ()
        self.known_at: dict[int, RankSet] = {}

    def _check(self, ranks: RankSet) -> RankSet:
        if ranks - self.core.state.live:
            raise RankSetError("not in the session")
        return ranks

    # -- the transport -------------------------------------------------------------------------

    def next_id(self) -> int:
        return 1

    async def ask(
        self, number: int, ranks: RankSet, operation: Operation, timeout_s: float, command: str
    ) -> Gathered:
        self.is_asked.set()
        await self.may_answer.wait()
        stopped = EquivalenceClass[Record](ranks, Stop(reason="attached"))
        return Gathered(request_id=number, classes=(stopped,))

    # -- the source of worlds and the recovery ---------------------------------------------------

    async def look(self) -> tuple[World, ...]:
        return self.further

    def take_known(self, worlds: Sequence[World]) -> None:
        self.known_at.update({each.number: self.core.state.live for each in worlds})

    async def of_job(self, target: str) -> World:
        return World(number=1, size=2, processes=processes(200), job=target)

    def assign(self, world: World) -> None:
        assert world.ranks == OTHER

    async def extend(self, before: RankSet, ranks: RankSet) -> None:
        assert (before, ranks) == (OWN, OTHER)


def test_ranks_of_another_job_are_guests() -> None:
    async def scenario() -> None:
        job = Job()
        job.may_answer.set()
        answer = await job.worlds.add_job("4711")
        assert answer.ranks == job.core.guests == OTHER
        assert job.core.state.live == OWN | OTHER

    asyncio.run(scenario())


def test_worlds_are_sets_before_their_ranks_are_in_the_session() -> None:
    job = Job()
    first = World(number=0, size=2, processes=processes(100), ranks=OWN)
    second = World(number=1, size=2, processes=processes(200), ranks=OTHER)
    job.worlds.begin((first, second))
    assert job.sets == {"world0": OWN, "world1": OTHER}


def test_worlds_that_the_user_adds_are_known_before_the_first_has_joined() -> None:
    async def scenario() -> None:
        job = Job()
        job.may_answer.set()
        job.further = (World(number=1, size=2, processes=processes(200)),)
        await job.worlds.add("all")
        assert job.core.state.live == OWN | OTHER
        assert job.known_at == {1: OWN}

    asyncio.run(scenario())


@pytest.mark.parametrize("word", ["1", "all"])
def test_a_world_that_joins_at_the_moment_joins_once(word: str) -> None:
    """The option 'spawned' attaches to it while the user asks for it."""

    async def scenario() -> None:
        job = Job()
        world = World(number=1, size=2, processes=processes(200))
        job.further = (world,)
        first = asyncio.create_task(job.worlds.join([world]))
        await job.is_asked.wait()
        job.is_asked.clear()
        second = asyncio.create_task(job.worlds.add(word))
        while not job.known_at:
            await asyncio.sleep(0)
        job.may_answer.set()
        assert (await first).ranks == OTHER
        with pytest.raises(UsageError, match=r"^world 1 is in the session: \[2-3\]$"):
            await second
        assert not job.is_asked.is_set()
        assert job.worlds.ranks == {0: OWN, 1: OTHER}
        job.further = ()
        with pytest.raises(UsageError, match=r"^there is no further world; world 0 is in the sess"):
            await job.worlds.add("all")

    asyncio.run(scenario())


def test_another_job_that_joins_at_the_moment_joins_once() -> None:
    async def scenario() -> None:
        job = Job()
        first = asyncio.create_task(job.worlds.add_job("4711"))
        await job.is_asked.wait()
        second = asyncio.create_task(job.worlds.add_job("4711"))
        await asyncio.sleep(0)
        job.may_answer.set()
        await first
        with pytest.raises(UsageError, match=r"^job 4711 is in the session: \[2-3\]$"):
            await second

    asyncio.run(scenario())


def test_ranks_that_join_after_the_user_has_given_up_are_guests() -> None:
    async def scenario() -> None:
        job = Job()
        adding = asyncio.create_task(job.worlds.add_job("4711"))
        asked = asyncio.create_task(job.is_asked.wait())
        await asyncio.wait([asked, adding], return_when=asyncio.FIRST_COMPLETED)
        assert asked.done()
        adding.cancel()
        await asyncio.wait([adding])
        assert adding.cancelled()
        job.may_answer.set()
        while job.core.state.live != OWN | OTHER:
            await job.core.wait_change()
        assert job.core.guests == OTHER

    asyncio.run(scenario())


def test_ranks_of_a_world_are_named_or_the_way_to_it() -> None:
    worlds = Job().worlds
    assert worlds.numbered_on("0.0-1,3") == "0-1,3"
    with pytest.raises(RankSetError, match=r"world 1 is not in the session; .*'worlds add'"):
        worlds.numbered_on("1.0-1")


def test_a_world_is_a_set_of_its_name_or_names_the_way_to_it() -> None:
    worlds = Job().worlds
    assert worlds.named("world0") == OWN  # this world alone
    assert worlds.named("world") is None and worlds.named("worlds1") is None
    with pytest.raises(
        RankSetError, match=r"@world1: world 1 is not in the session; .*'worlds add'"
    ):
        worlds.named("world1")
