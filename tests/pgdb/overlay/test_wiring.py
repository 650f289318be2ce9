"""Aggregators find their places in the tree: real ones, over loopback, in one process.

The front end listens or calls. The aggregators know each other's addresses (from MPI) or do not.
Some never appear, and links are lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pgdb.backend.node import aggregator as aggregator_module
from pgdb.backend.node.aggregator import Aggregator, Place
from pgdb.errors import LinkError
from pgdb.frontend.transport.overlay_root import Root
from pgdb.jobs import environment_scan, hold
from pgdb.overlay import channel as channel_module
from pgdb.overlay.channel import SILENT, Listener, connect, listen, listen_on
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import (
    PROTOCOL_VERSION,
    Find,
    Found,
    FoundRanks,
    Hello,
    Lost,
    Setup,
    Shutdown,
    Table,
)
from pgdb.overlay.node import release
from pgdb.overlay.topology import Topology
from pgdb.proctable import RankProcess
from pgdb.ranks import RankSet
from tests.fakes.canned_debugger import CannedOpener

CREDENTIALS = make_credentials()
DEADLINE_S = 20.0


class FrontEnd:
    """A root that records its notices."""

    def __init__(self, fan_out: int) -> None:
        self.lost: list[Lost] = []
        self.found: dict[int, Found] = {}
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self.root = Root(
            Topology(count=1, fan_out=fan_out),
            on_events=lambda classes: None,
            on_late=lambda gathered: None,
            on_lost=self._take_lost,
            on_notice=lambda notice: None,
            on_joined=lambda joined: self._notify(),
            on_asking=self._notify,
            on_found=self._take_found,
        )

    def _take_lost(self, lost: Lost) -> None:
        self.lost.append(lost)
        self._notify()

    def _take_found(self, found: Found) -> None:
        self.found[found.node] = found
        self._notify()

    def _notify(self) -> None:
        async def notify() -> None:
            async with self._changed:
                self._changed.notify_all()

        task = asyncio.create_task(notify())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self, holds: Callable[[], object]) -> None:
        async with self._changed:
            await self._changed.wait_for(holds)

    async def wait_joined(self, nodes: Iterable[int]) -> None:
        wanted = set(nodes)
        await self.wait(lambda: self.root.joined.keys() == wanted)

    async def call(self, address: str, table: Table) -> asyncio.Task[None]:
        """Open the link to node 0, as a front end that cannot be reached does."""
        channel = await connect(address, CREDENTIALS)
        channel.send(table)
        return asyncio.create_task(self.root.serve_child(channel))


class Session:
    """A front end and its aggregators, by their first numbers."""

    def __init__(self, count: int, fan_out: int) -> None:
        self.count = count
        self.fan_out = fan_out
        self.front = FrontEnd(fan_out)
        self.aggregators: dict[int, Aggregator] = {}
        self.running: dict[int, asyncio.Task[None]] = {}
        self.links: list[asyncio.Task[None]] = []
        self._sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        self.addresses = tuple(f"127.0.0.1:{each.getsockname()[1]}" for each in self._sockets)
        self._listeners: dict[int, Listener] = {}
        self._front_listener: Listener | None = None

    async def start(
        self, *numbers: int, calls: bool = False, mpi: bool = False, grace_s: float = 10.0
    ) -> None:
        """Start aggregators; with *calls* the front end calls them, with *mpi* they know each
        other."""
        front_end = ""
        if not calls:
            self._front_listener = await listen(
                "127.0.0.1", CREDENTIALS, self.front.root.serve_child
            )
            front_end = f"127.0.0.1:{self._front_listener.port}"
        for number in numbers:
            place = Place(
                node=number,
                topology=Topology(count=self.count, fan_out=self.fan_out),
                credentials=CREDENTIALS,
                front_end=front_end,
                own_address=self.addresses[number],
                grace_s=grace_s,
                addresses=self.addresses if mpi else (),
            )
            one = self.aggregators[number] = Aggregator(place, CannedOpener())
            self._listeners[number] = await listen_on(
                self._sockets[number], CREDENTIALS, one.serve_link
            )
            self.running[number] = asyncio.create_task(one.run())

    async def call(self, *, addresses: tuple[str, ...] | None = None) -> None:
        known = self.addresses if addresses is None else addresses
        table = Table(
            node=0, count=self.count, fan_out=self.fan_out, addresses=known, is_parent=True
        )
        self.links.append(await self.front.call(self.addresses[0], table))

    async def crash(
        self, number: int, *, goes_on_listening: contextlib.ExitStack | None = None
    ) -> None:
        """End an aggregator without a message, as the death of its process does."""
        one = self.aggregators.pop(number)
        # It does not look for a new parent any longer.
        vars(one)["_find_parent"] = lambda limit_s: asyncio.Event().wait()
        await self._listeners[number].close()
        if goes_on_listening is not None:
            host, _, port = self.addresses[number].rpartition(":")
            goes_on_listening.enter_context(socket.create_server((host, int(port))))
        task = self.running.pop(number)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for channel in (one._parent, *one._channels.values()):
            if channel is not None:
                channel._writer.transport.abort()

    def children(self, number: int) -> set[int]:
        """Return the first numbers of the children of the aggregator *number*."""
        return set(self.aggregators[number]._channels)

    async def close(self) -> None:
        self.front.root.down(Shutdown())
        for one in self.aggregators.values():
            one.leave()
        await asyncio.gather(*self.running.values())
        for listener in (*self._listeners.values(), self._front_listener):
            if listener is not None:
                await listener.close()
        for each in self._sockets:
            each.close()
        await asyncio.gather(*self.links, return_exceptions=True)


def run(
    test: Callable[[Session], Coroutine[Any, Any, None]], *, count: int, fan_out: int = 2
) -> None:
    @asynccontextmanager
    async def session() -> AsyncIterator[Session]:
        made = Session(count, fan_out)
        try:
            yield made
        finally:
            await made.close()

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S), session() as made:
            await test(made)

    asyncio.run(bounded())


# -- a front end that listens --------------------------------------------------------------------


def test_aggregators_that_mpi_has_informed_of_everything_find_their_parents() -> None:
    async def test(session: Session) -> None:
        await session.start(*range(7), mpi=True)
        await session.front.wait_joined(range(7))
        assert session.children(0) == {1, 2} and session.children(1) == {3, 4}
        assert not session.front.root.asking

    run(test, count=7)


def test_aggregators_without_mpi_get_their_places_from_the_front_end() -> None:
    async def test(session: Session) -> None:
        await session.start(*range(7))
        front = session.front
        await front.wait(lambda: front.root.asking == set(range(7)))
        assert not front.root.joined, "nobody has a place before all have come"
        front.root.seat()
        await front.wait_joined(range(7))
        assert session.children(0) == {1, 2} and session.children(2) == {5, 6}
        for number, hello in front.root.joined.items():
            assert hello.address == session.addresses[number]
            assert hello.names and hello.pid == os.getpid()
        await front.wait(lambda: not front.root.asking)

    run(test, count=7)


@pytest.mark.parametrize("missing", range(3))
def test_nodes_that_come_are_seated_without_a_gap(missing: int) -> None:
    here = [number for number in range(3) if number != missing]

    async def test(session: Session) -> None:
        front = session.front
        await session.start(*here)
        await front.wait(lambda: front.root.asking == set(here))
        front.root.seat()
        await front.wait_joined([0, 1])
        assert front.root.topology == Topology(count=2, fan_out=1)
        for number, came_as in enumerate(here):
            assert front.root.joined[number].address == session.addresses[came_as]
            assert session.aggregators[came_as].number == number
            assert session.aggregators[came_as].topology.count == 2
        assert set(front.root._channels) == {0} and session.children(here[0]) == {1}
        assert not front.lost

    run(test, count=3, fan_out=1)


def test_one_that_leaves_before_it_is_seated_gets_no_place() -> None:
    async def test(session: Session) -> None:
        front = session.front
        await session.start(0, 1, 2)
        await front.wait(lambda: front.root.asking == {0, 1, 2})
        session.aggregators[1].leave()
        await session.running[1]
        while 1 in front.root.asking:  # no node is notified
            await asyncio.sleep(0)
        front.root.seat()
        await front.wait_joined([0, 1])
        assert session.aggregators[2].number == 1

    run(test, count=3)


def test_requests_reach_nodes_behind_a_gap() -> None:
    async def test(session: Session) -> None:
        front = session.front
        await session.start(0, 2)
        await front.wait(lambda: front.root.asking == {0, 2})
        front.root.seat()
        await front.wait_joined([0, 1])
        front.root.down(Find(selector="none:such"))
        await front.wait(lambda: front.found.keys() == {0, 1})
        assert all(each.jobs == () for each in front.found.values())

    run(test, count=3, fan_out=1)


def test_another_release_is_not_seated_and_reported_with_its_host() -> None:
    async def test(session: Session) -> None:
        front = session.front
        await session.start(0)
        await front.wait(lambda: front.root.asking == {0})
        assert session._front_listener is not None
        channel = await connect(f"127.0.0.1:{session._front_listener.port}", CREDENTIALS)
        hello = Hello(
            version=PROTOCOL_VERSION,
            release="PGDB 0.1 on Python 3.6",
            node=1,
            host="old-host",
            pid=1,
            wants_table=True,
        )
        channel.send(hello)
        with pytest.raises(LinkError):
            await channel.receive()
        await front.wait(lambda: front.lost)
        (lost,) = front.lost
        assert lost.nodes == (1,)
        assert "old-host runs PGDB 0.1 on Python 3.6" in lost.why and release() in lost.why
        assert front.root.asking == {0}

    run(test, count=2)


def test_beginning_again_drops_all_and_tells_of_no_loss() -> None:
    async def test(session: Session) -> None:
        front = session.front
        await session.start(0, 1, mpi=True, grace_s=0.2)
        await front.wait_joined([0, 1])
        assert session._front_listener is not None
        await session._front_listener.close()
        front.root.begin_again()
        assert not front.root.joined and not front.root._channels
        # Without a front end all leave; errors of attempts that are no longer needed do not matter.
        await asyncio.gather(*session.running.values())
        assert front.lost == []
        assert not front.root.joined

    run(test, count=2)


def test_beginning_again_drops_those_that_ask() -> None:
    async def test(session: Session) -> None:
        front = session.front
        await session.start(0, 1)
        await front.wait(lambda: front.root.asking == {0, 1})
        front.root.begin_again()
        await asyncio.gather(*session.running.values())
        assert not front.root.asking and not front.lost

    run(test, count=2)


def test_one_of_an_earlier_attempt_that_leaves_late_does_not_take_anothers_place_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(session: Session) -> None:
        front = session.front
        forgotten = asyncio.Event()
        forget = front.root.forget_hello

        def forget_and_note(hello: Hello) -> None:
            forget(hello)
            forgotten.set()

        monkeypatch.setattr(front.root, "forget_hello", forget_and_note)
        await session.start(0)
        await front.wait(lambda: front.root.asking == {0})
        first = front.root._asking[0][0]
        assert session._front_listener is not None
        later = await connect(f"127.0.0.1:{session._front_listener.port}", CREDENTIALS)
        hello = Hello(
            version=PROTOCOL_VERSION, release=release(), node=0, host="h", pid=1, wants_table=True
        )
        later.send(hello)
        await front.wait(lambda: front.root._asking[0][0] is not first)
        session.aggregators[0].leave()
        await forgotten.wait()
        assert front.root.asking == {0}
        later.close()
        await later.wait_closed(5.0)

    run(test, count=1)


# -- a front end that calls ----------------------------------------------------------------------


def test_a_front_end_that_calls_node_0_reaches_all() -> None:
    async def test(session: Session) -> None:
        await session.start(*range(7), calls=True)
        await session.call()
        await session.front.wait_joined(range(7))
        assert session.children(0) == {1, 2} and session.children(1) == {3, 4}
        assert set(session.front.root._channels) == {0}

    run(test, count=7)


def test_aggregators_that_came_with_other_numbers_take_those_of_the_table() -> None:
    async def test(session: Session) -> None:
        # A gap: of 4 aggregators numbers 1 and 3 are there, and the front end has said so.
        await session.start(1, 3, calls=True)
        addresses = (session.addresses[1], session.addresses[3])
        table = Table(node=0, count=2, fan_out=2, addresses=addresses, is_parent=True)
        session.links.append(await session.front.call(addresses[0], table))
        await session.front.wait_joined([0, 1])
        assert session.front.root.joined[1].address == session.addresses[3]
        assert (session.aggregators[1].number, session.aggregators[3].number) == (0, 1)

    run(test, count=4)


def test_where_mpi_has_distributed_the_addresses_the_call_alone_is_enough() -> None:
    async def test(session: Session) -> None:
        await session.start(*range(3), calls=True, mpi=True)
        await session.call(addresses=())
        await session.front.wait_joined(range(3))
        assert session.children(0) == {1, 2}

    run(test, count=3)


def test_a_child_that_cannot_be_given_its_place_costs_only_itself() -> None:
    async def test(session: Session) -> None:
        await session.start(0, 2, calls=True)
        session._sockets[1].close()
        await session.call()
        await session.front.wait_joined([0, 2])

    run(test, count=3)


def test_a_call_that_is_lost_is_made_again_and_all_are_still_there() -> None:
    async def test(session: Session) -> None:
        front = session.front
        await session.start(*range(7), calls=True)
        await session.call()
        await front.wait_joined(range(7))
        front.root.apply_setup(Setup(shares=(), gdb="gdb"))
        links = {number: dict(one._channels) for number, one in session.aggregators.items()}
        front.root._channels[0]._writer.transport.abort()
        await front.wait(lambda: front.lost)
        assert set(front.lost[0].nodes) == set(range(7))
        assert not front.root.joined
        for again in range(2):
            await session.call()
            await front.wait_joined(range(7))
            if not again:
                front.root._channels[0]._writer.transport.abort()
                await front.wait(lambda: len(front.lost) == 2)
        assert {n: dict(one._channels) for n, one in session.aggregators.items()} == links
        front.root.down(Find(selector="none:such"))
        await front.wait(lambda: front.found.keys() == set(range(7)))

    run(test, count=7)


def test_without_a_call_aggregators_leave_after_the_grace_time() -> None:
    async def test(session: Session) -> None:
        await session.start(0, 1, calls=True, grace_s=0.1)
        await asyncio.gather(*session.running.values())

    run(test, count=2)


def test_a_call_that_is_not_made_again_ends_all_after_the_grace_time() -> None:
    async def test(session: Session) -> None:
        front = session.front
        await session.start(0, 1, calls=True, grace_s=0.2)
        await session.call()
        await front.wait_joined([0, 1])
        front.root._channels[0]._writer.transport.abort()
        await asyncio.gather(*session.running.values())

    run(test, count=2)


def test_those_that_have_to_be_called_wait_until_the_front_end_can_know_that_a_parent_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its last heartbeat to the front end may be later than its last one to them."""
    monkeypatch.setattr(aggregator_module, "CALLED_LATER_S", 10 * DEADLINE_S)

    async def test(session: Session) -> None:
        front = session.front
        await session.start(*range(3), calls=True, grace_s=0.2)
        await session.call()
        await front.wait_joined(range(3))
        silent, closed = session.aggregators[1], session.running[2]
        assert silent._parent is not None
        silent._parent._give_up(f"{SILENT} 20 s")
        await session.crash(0)
        # The front end learns at the same time of an aggregator that announces its end.
        await closed
        assert not session.running[1].done()
        table = Table(node=1, count=3, fan_out=2, addresses=session.addresses, is_parent=True)
        session.links.append(await front.call(session.addresses[1], table))
        await front.wait_joined([1])

    run(test, count=3)


@pytest.mark.parametrize("calls", [True, False])
def test_an_orphan_goes_to_its_grandparent(calls: bool) -> None:
    async def test(session: Session) -> None:
        front = session.front
        await session.start(*range(3), calls=calls, mpi=not calls)
        if calls:
            await session.call()
        await front.wait_joined(range(3))
        await session.crash(1)
        await front.wait(lambda: front.lost)
        await front.wait_joined([0, 2])
        assert session.children(0) == {2}

    run(test, count=3, fan_out=1)


@pytest.mark.parametrize("hanging", [1, 2, 3])
def test_those_below_ones_that_hang_do_not_wait_for_them(
    monkeypatch: pytest.MonkeyPatch, hanging: int
) -> None:
    """The kernel accepts a connection for a stopped process, and nothing answers."""
    # The deadline of one attempt is far beyond the test's.
    monkeypatch.setattr(channel_module, "CONNECT_TIMEOUT_S", 10 * DEADLINE_S)
    monkeypatch.setattr(aggregator_module, "NEXT_ANCESTOR_S", 0.1)

    async def test(session: Session) -> None:
        front = session.front
        await session.start(*range(4), mpi=True, grace_s=DEADLINE_S)
        await front.wait_joined(range(4))
        with contextlib.ExitStack() as stack:
            # Upper nodes first: no node looks for another parent before its own turn.
            for number in range(hanging):
                await session.crash(number, goes_on_listening=stack)
            await front.wait_joined(range(hanging, 4))
            assert set(front.root._channels) == {hanging}

    run(test, count=4, fan_out=1)


def test_a_stranger_with_a_table_does_not_take_a_link_over() -> None:
    async def test(session: Session) -> None:
        front = session.front
        await session.start(*range(2), calls=True)
        await session.call()
        await front.wait_joined(range(2))
        with pytest.raises(LinkError):
            await connect(session.addresses[0], make_credentials())
        # A node of the session that claims another place is too late, and is ignored.
        channel = await connect(session.addresses[0], CREDENTIALS)
        addresses = (*session.addresses, *["127.0.0.1:1"] * 7)
        channel.send(Table(node=5, count=9, fan_out=2, addresses=addresses))
        with pytest.raises(LinkError):
            await channel.receive()
        assert session.aggregators[0].number == 0
        front.root.down(Find(selector="none:such"))
        await front.wait(lambda: front.found.keys() == {0, 1})

    run(test, count=2)


# -- ranks that are found ------------------------------------------------------------------------


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

    async def test(session: Session) -> None:
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

    run(test, count=3)


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

    async def test(session: Session) -> None:
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
        run(test, count=2)
    finally:
        for each in ranks:
            each.send_signal(hold.RELEASE)
        assert [each.wait(DEADLINE_S) for each in ranks] == [0] * len(ranks)
