"""Aggregators that are lost: each place is filled anew, or its reason is reported."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import NoReturn

import pytest

from pgdb.backend.node import aggregator as aggregator_module
from pgdb.frontend.startup import aggregator_recovery, first_start
from pgdb.frontend.startup import links as links_module
from pgdb.overlay import channel as channel_module
from pgdb.overlay.channel import Channel
from pgdb.overlay.messages import Find
from tests.fakes.starters import (
    BOTH,
    DEADLINE_S,
    HOSTS,
    FakeSite,
    FakeStarter,
    Raised,
    alone,
    run,
    whole,
)


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    with alone():
        yield


async def crash(starter: FakeStarter, *nodes: int) -> None:
    """Have aggregators go as killed processes go: all links at once, and nobody listens."""

    async def never(limit_s: float) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    for node in nodes:
        one = starter.aggregators[node]
        one._find_parent = never  # type: ignore[method-assign]
        await starter._listeners[node].close()
        for channel in (one._parent, *one._channels.values()):
            if channel is not None:
                channel._writer.transport.abort()


async def only(raised: Raised, *nodes: int) -> None:
    while raised.overlay.nodes.keys() != set(nodes):
        await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("connect", [False, True])
@pytest.mark.parametrize("lost", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_the_place_of_a_lost_aggregator_is_filled_anew(
    monkeypatch: pytest.MonkeyPatch, connect: bool, lost: tuple[int, ...]
) -> None:
    monkeypatch.setattr(links_module, "CALL_AGAIN_S", 0.05)

    async def test(raised: Raised) -> None:
        (first,) = raised.site.starters
        await crash(first, *lost)
        # Descendants of a lost one find another parent, or are called if they cannot call us.
        await only(raised, *({0, 1, 2} - set(lost)))
        assert await raised.overlay.recover(lost) == {}
        await whole(*HOSTS)(raised)
        for node, hello in raised.overlay.nodes.items():
            assert hello.generation == (node in lost)
        wanted = [("direct", (HOSTS[node],)) for node in lost]
        assert raised.site.tried[1:] == wanted

    run(FakeSite(), test, connect=connect, fan_out=1, grace_s=DEADLINE_S)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 2, 0), (2, 1, 0)])
def test_one_lost_aggregator_after_the_other_comes_back(
    connect: bool, order: tuple[int, ...]
) -> None:
    """An aggregator with nobody above it is called, too; only requested ones are started."""

    async def test(raised: Raised) -> None:
        root = raised.overlay.root
        await crash(raised.site.starters[0], *order)
        await only(raised)
        for count, node in enumerate(order, 1):
            assert await raised.overlay.recover([node]) == {}
            await only(raised, *order[:count])
            # On the nearest one above that is there, else on the front end.
            above = [each for each in order[:count] if each < node]
            hangs_on_us = node in root._channels
            assert hangs_on_us == (not above)
        assert raised.site.tried[1:] == [("direct", (HOSTS[node],)) for node in order]
        await whole(*HOSTS)(raised)

    run(FakeSite(), test, connect=connect, fan_out=1, grace_s=DEADLINE_S)


@pytest.mark.slow
@BOTH
def test_an_aggregator_that_lives_is_called_back(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    """While it tries in vain to reach the one that was above it."""

    async def test(raised: Raised) -> None:
        gone = raised.overlay.nodes[1].address

        async def reach(address: str, credentials: bytes) -> Channel:
            if address == gone:
                await asyncio.Event().wait()
            return await channel_module.connect(address, credentials)

        monkeypatch.setattr(aggregator_module, "connect", reach)
        (first,) = raised.site.starters
        await crash(first, 1)
        await only(raised, 0)
        assert await raised.overlay.recover([1, 2]) == {}
        assert raised.site.tried[1:] == [("direct", (HOSTS[1],))]
        nodes = raised.overlay.nodes
        assert [nodes[node].generation for node in range(3)] == [0, 1, 0]
        await whole(*HOSTS)(raised)
        # The link that has brought it back is one like any other.
        raised.lost.clear()
        raised.overlay.root._channels[2]._writer.transport.abort()
        while not raised.lost:
            await asyncio.sleep(0)
        await only(raised, 0, 1, 2)

    run(FakeSite(), test, connect=connect, fan_out=1, grace_s=DEADLINE_S)


@pytest.mark.slow
@BOTH
def test_those_below_a_first_one_that_hangs_come_back_soon(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    """The aggregator takes connections, as a stopped process does, and says nothing."""
    monkeypatch.setattr(channel_module, "CONNECT_TIMEOUT_S", 10 * DEADLINE_S)
    monkeypatch.setattr(links_module, "ORPHANS_AFTER_S", 0.1)
    monkeypatch.setattr(aggregator_module, "NEXT_ANCESTOR_S", 0.1)

    async def test(raised: Raised) -> None:
        host, _, port = raised.overlay.nodes[0].address.rpartition(":")
        (first,) = raised.site.starters
        await first._listeners[0].close()
        with socket.create_server((host, int(port))):
            await crash(first, 0)
            await only(raised, 1, 2)

    run(FakeSite(), test, connect=connect, fan_out=1, grace_s=DEADLINE_S)


@pytest.mark.slow
@BOTH
def test_with_one_that_lives_come_those_below_it(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    async def test(raised: Raised) -> None:
        async def reach(address: str, credentials: bytes) -> NoReturn:
            await asyncio.Event().wait()
            raise AssertionError

        monkeypatch.setattr(aggregator_module, "connect", reach)
        (first,) = raised.site.starters
        await crash(first, 1)
        await only(raised, 0)
        # It has a parent, and has noticed nothing.
        assert await raised.overlay.recover([3]) == {}
        await only(raised, 0, 2, 3)
        assert len(raised.site.starts) == 1

    run(FakeSite(), test, hosts=(*HOSTS, "d"), connect=connect, fan_out=1, grace_s=DEADLINE_S)


def test_an_aggregator_that_hangs_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links_module, "ANSWER_TIMEOUT_S", 0.1)

    async def test(raised: Raised) -> None:
        links = raised.overlay.links
        assert await links.answers(raised.overlay.nodes[0].address)
        with socket.create_server(("127.0.0.1", 0)) as server:
            hung = f"127.0.0.1:{server.getsockname()[1]}"
            assert not await links.answers(hung)
        assert not await links.answers(hung)
        assert not await links.answers("")

    run(FakeSite(), test)


@pytest.mark.slow
@pytest.mark.parametrize("connect", [False, True])
def test_the_reason_of_an_empty_place_is_reported(
    monkeypatch: pytest.MonkeyPatch, connect: bool
) -> None:
    site = FakeSite()

    async def test(raised: Raised) -> None:
        (first,) = site.starters
        await crash(first, 1, 2)
        await only(raised, 0)
        site.dead[HOSTS[1]] = "no such host"
        site.silent = frozenset({HOSTS[2]})
        monkeypatch.setattr(first_start, "TOGETHER_TIMEOUT_S", 0.5)
        monkeypatch.setattr(aggregator_recovery, "START_TIMEOUT_S", 0.5)
        assert await raised.overlay.recover([1, 2]) == {
            1: "no such host",
            2: "it does not come up",
        }
        # The launcher that started in vain has been ended.
        assert all(each.was_ended for each in site.starters[1:])

    run(site, test, connect=connect, grace_s=DEADLINE_S)


def test_an_aggregator_that_is_lost_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(raised: Raised) -> None:
        (starter,) = raised.site.starters

        async def answer_never(find: Find) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(starter.aggregators[2], "_answer_find", answer_never)
        finding = asyncio.create_task(raised.overlay.find(Find(selector="none:such")))
        while len(raised.overlay._found) < 2:
            await asyncio.sleep(0)
        assert not finding.done()
        starter.aggregators[2].leave()
        assert (await finding).keys() == {0, 1}

    run(FakeSite(), test)
