"""Announcement of an aggregator to a new parent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import cast

import pytest

from pgdb.backend.node import aggregator as aggregator_module
from pgdb.backend.node.aggregator import MOST_UNSENT, Aggregator, Place
from pgdb.backend.node.leaf import Leaf
from pgdb.errors import LinkError
from pgdb.merge.classes import EquivalenceClass
from pgdb.merge.graph import from_graph
from pgdb.overlay.channel import Channel
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import (
    Acquire,
    AnyMessage,
    Events,
    Hello,
    Reply,
    Request,
    Setup,
    Share,
)
from pgdb.overlay.router import Gathered
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Record, Value
from tests.fakes.canned_debugger import CannedOpener

RANKS = RankSet([6, 7])
DEADLINE_S = 20.0


@contextlib.contextmanager
def an_aggregator(opener: CannedOpener | None = None) -> Iterator[Aggregator]:
    """Make one of four, which has no parent yet."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        yield Aggregator(
            Place(
                node=3,
                topology=Topology(count=4, fan_out=2),
                credentials=make_credentials(),
                front_end=address,
                grace_s=60.0,
                own_address=address,
                addresses=(address,) * 4,
            ),
            opener or CannedOpener(),
        )


class Parent:
    """The link to a parent that hears what there is, and goes."""

    def __init__(self) -> None:
        self.heard: list[AnyMessage] = []

    def send(self, message: AnyMessage) -> None:
        self.heard.append(message)

    async def receive(self) -> AnyMessage:
        raise LinkError("it is gone")


def test_answers_that_were_ready_without_a_parent_come_to_the_next_one() -> None:
    said = EquivalenceClass[Record](RANKS, Value(text="7"))

    async def run() -> list[AnyMessage]:
        heard = []
        with an_aggregator() as aggregator:
            reply = Gathered(5, (said,)).reply()
            aggregator.up(reply)
            aggregator.up(Events(classes=()))  # the current state is announced anew
            for _ in range(2):
                parent = Parent()
                with pytest.raises(LinkError):
                    await aggregator._serve_parent(cast(Channel, parent))
                aggregator._parent = None
                heard += [each for each in parent.heard if not isinstance(each, Hello)]
            assert heard == [reply]
            for _ in range(100):
                aggregator.up(reply)
            assert len(aggregator._unsent) == MOST_UNSENT
            return heard

    (reply,) = asyncio.run(run())
    assert isinstance(reply, Reply)
    assert from_graph(reply.graph)[0] == (said,)


def test_ranks_are_released_when_a_bug_keeps_the_aggregator_from_a_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the aggregator no process would ever resume the ranks."""

    async def connect(address: str, credentials: bytes) -> Channel:
        raise RuntimeError("a bug")

    monkeypatch.setattr(aggregator_module, "connect", connect)

    async def run() -> bool:
        opener = CannedOpener()
        with an_aggregator(opener) as aggregator:
            aggregator._take_setup(Setup(shares=(Share.of(3, RANKS, (70, 71)),), gdb="gdb"))
            async with asyncio.timeout(DEADLINE_S):
                await aggregator.run()
            return all(opener.debugger(rank).detached for rank in RANKS)

    assert asyncio.run(run())


def test_one_that_knows_its_ranks_has_yet_to_be_asked_to_take_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The parent can die between the two messages."""
    reported: list[Share] = []
    asked: list[Request] = []
    monkeypatch.setattr(Leaf, "setup", lambda _, setup, share, delivery: reported.append(share))
    monkeypatch.setattr(Leaf, "ask", lambda _, request, ranks: asked.append(request))
    share = Share.of(3, RANKS, (70, 71))

    async def run() -> list[bool]:
        with an_aggregator() as aggregator:
            said = [aggregator._hello().is_set_up]
            # That of others first, as below a parent that has just been replaced.
            for shares in ((), (share,), (share,)):
                aggregator._take_setup(Setup(shares=shares, gdb="gdb"))
                said.append(aggregator._hello().is_set_up)
            aggregator.start_request(
                Request(request_id=1, ranks=RANKS, operation=Acquire(), timeout_s=60.0)
            )
            said.append(aggregator._hello().is_set_up)
            return said

    assert asyncio.run(run()) == [False, False, False, False, True]
    assert reported == [share]
    assert [request.request_id for request in asked] == [1]
