"""Aggregators whose parent or front end is lost, never comes or hangs."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from pgdb.backend.node import aggregator as aggregator_module
from pgdb.overlay import channel as channel_module
from pgdb.overlay.channel import SILENT
from pgdb.overlay.messages import Table
from tests.support.wired_session import DEADLINE_S, WiredSession, run_wired


def test_without_a_call_aggregators_leave_after_the_grace_time() -> None:
    async def test(session: WiredSession) -> None:
        await session.start(0, 1, calls=True, grace_s=0.1)
        await asyncio.gather(*session.running.values())

    run_wired(test, count=2)


def test_a_call_that_is_not_made_again_ends_all_after_the_grace_time() -> None:
    async def test(session: WiredSession) -> None:
        front = session.front
        await session.start(0, 1, calls=True, grace_s=0.2)
        await session.call()
        await front.wait_joined([0, 1])
        front.root._channels[0]._writer.transport.abort()
        await asyncio.gather(*session.running.values())

    run_wired(test, count=2)


def test_those_that_have_to_be_called_wait_until_the_front_end_can_know_that_a_parent_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last heartbeat to the front end may be later than the last one to the children."""
    monkeypatch.setattr(aggregator_module, "CALLED_LATER_S", 10 * DEADLINE_S)

    async def test(session: WiredSession) -> None:
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

    run_wired(test, count=3)


@pytest.mark.parametrize("calls", [True, False])
def test_an_orphan_goes_to_its_grandparent(calls: bool) -> None:
    async def test(session: WiredSession) -> None:
        front = session.front
        await session.start(*range(3), calls=calls, mpi=not calls)
        if calls:
            await session.call()
        await front.wait_joined(range(3))
        await session.crash(1)
        await front.wait(lambda: front.lost)
        await front.wait_joined([0, 2])
        assert session.children(0) == {2}

    run_wired(test, count=3, fan_out=1)


@pytest.mark.parametrize("hanging", [1, 2, 3])
def test_those_below_ones_that_hang_do_not_wait_for_them(
    monkeypatch: pytest.MonkeyPatch, hanging: int
) -> None:
    """The kernel accepts a connection for a stopped process, and nothing answers."""
    # The deadline of one attempt is far beyond the test's.
    monkeypatch.setattr(channel_module, "CONNECT_TIMEOUT_S", 10 * DEADLINE_S)
    monkeypatch.setattr(aggregator_module, "NEXT_ANCESTOR_S", 0.1)

    async def test(session: WiredSession) -> None:
        front = session.front
        await session.start(*range(4), mpi=True, grace_s=DEADLINE_S)
        await front.wait_joined(range(4))
        with contextlib.ExitStack() as stack:
            # Upper nodes first: no node looks for another parent before its own turn.
            for number in range(hanging):
                await session.crash(number, goes_on_listening=stack)
            await front.wait_joined(range(hanging, 4))
            assert set(front.root._channels) == {hanging}

    run_wired(test, count=4, fan_out=1)
