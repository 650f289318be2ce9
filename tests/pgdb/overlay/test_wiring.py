"""Aggregators find their places in the tree: real ones, over loopback, in one process.

The front end listens or calls. The aggregators know each other's addresses (from MPI) or do not.
Some never appear.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from pgdb.errors import LinkError
from pgdb.overlay.channel import connect
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import PROTOCOL_VERSION, Find, Hello, Setup, Table
from pgdb.overlay.node import release
from pgdb.overlay.topology import Topology
from tests.support.wired_session import CREDENTIALS, WiredSession, run_wired

# -- a front end that listens --------------------------------------------------------------------


def test_aggregators_that_mpi_has_informed_of_everything_find_their_parents() -> None:
    async def test(session: WiredSession) -> None:
        await session.start(*range(7), mpi=True)
        await session.front.wait_joined(range(7))
        assert session.children(0) == {1, 2} and session.children(1) == {3, 4}
        assert not session.front.root.asking

    run_wired(test, count=7)


def test_aggregators_without_mpi_get_their_places_from_the_front_end() -> None:
    async def test(session: WiredSession) -> None:
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

    run_wired(test, count=7)


@pytest.mark.parametrize("missing", range(3))
def test_nodes_that_come_are_seated_without_a_gap(missing: int) -> None:
    here = [number for number in range(3) if number != missing]

    async def test(session: WiredSession) -> None:
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

    run_wired(test, count=3, fan_out=1)


def test_one_that_leaves_before_it_is_seated_gets_no_place() -> None:
    async def test(session: WiredSession) -> None:
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

    run_wired(test, count=3)


def test_requests_reach_nodes_behind_a_gap() -> None:
    async def test(session: WiredSession) -> None:
        front = session.front
        await session.start(0, 2)
        await front.wait(lambda: front.root.asking == {0, 2})
        front.root.seat()
        await front.wait_joined([0, 1])
        front.root.down(Find(selector="none:such"))
        await front.wait(lambda: front.found.keys() == {0, 1})
        assert all(each.jobs == () for each in front.found.values())

    run_wired(test, count=3, fan_out=1)


def test_another_release_is_not_seated_and_reported_with_its_host() -> None:
    async def test(session: WiredSession) -> None:
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

    run_wired(test, count=2)


def test_beginning_again_drops_all_and_reports_no_loss() -> None:
    async def test(session: WiredSession) -> None:
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

    run_wired(test, count=2)


def test_beginning_again_drops_those_that_ask() -> None:
    async def test(session: WiredSession) -> None:
        front = session.front
        await session.start(0, 1)
        await front.wait(lambda: front.root.asking == {0, 1})
        front.root.begin_again()
        await asyncio.gather(*session.running.values())
        assert not front.root.asking and not front.lost

    run_wired(test, count=2)


def test_one_of_an_earlier_attempt_that_leaves_late_does_not_take_anothers_place_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(session: WiredSession) -> None:
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

    run_wired(test, count=1)


# -- a front end that calls ----------------------------------------------------------------------


def test_a_front_end_that_calls_node_0_reaches_all() -> None:
    async def test(session: WiredSession) -> None:
        await session.start(*range(7), calls=True)
        await session.call()
        await session.front.wait_joined(range(7))
        assert session.children(0) == {1, 2} and session.children(1) == {3, 4}
        assert set(session.front.root._channels) == {0}

    run_wired(test, count=7)


def test_aggregators_that_came_with_other_numbers_take_those_of_the_table() -> None:
    async def test(session: WiredSession) -> None:
        # A gap: of 4 aggregators numbers 1 and 3 are there, and the front end has said so.
        await session.start(1, 3, calls=True)
        addresses = (session.addresses[1], session.addresses[3])
        table = Table(node=0, count=2, fan_out=2, addresses=addresses, is_parent=True)
        session.links.append(await session.front.call(addresses[0], table))
        await session.front.wait_joined([0, 1])
        assert session.front.root.joined[1].address == session.addresses[3]
        assert (session.aggregators[1].number, session.aggregators[3].number) == (0, 1)

    run_wired(test, count=4)


def test_where_mpi_has_distributed_the_addresses_the_call_alone_is_enough() -> None:
    async def test(session: WiredSession) -> None:
        await session.start(*range(3), calls=True, mpi=True)
        await session.call(addresses=())
        await session.front.wait_joined(range(3))
        assert session.children(0) == {1, 2}

    run_wired(test, count=3)


def test_a_child_that_cannot_be_given_its_place_costs_only_itself() -> None:
    async def test(session: WiredSession) -> None:
        await session.start(0, 2, calls=True)
        session._sockets[1].close()
        await session.call()
        await session.front.wait_joined([0, 2])

    run_wired(test, count=3)


def test_a_call_that_is_lost_is_made_again_and_all_are_still_there() -> None:
    async def test(session: WiredSession) -> None:
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

    run_wired(test, count=7)


def test_a_stranger_with_a_table_does_not_take_a_link_over() -> None:
    async def test(session: WiredSession) -> None:
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

    run_wired(test, count=2)
