"""What an aggregator says of itself to a new parent."""

from __future__ import annotations

import asyncio
import socket

import pytest

from pgdb.backend.aggregator import Aggregator, Place
from pgdb.backend.leaf import Leaf
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import Acquire, Request, Setup, Share
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet

RANKS = RankSet([6, 7])


def test_one_that_knows_its_ranks_has_yet_to_be_told_to_take_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its parent can die between the two."""
    told: list[Share] = []
    asked: list[Request] = []
    monkeypatch.setattr(Leaf, "setup", lambda _, setup, share, deployment: told.append(share))
    monkeypatch.setattr(Leaf, "ask", lambda _, request, ranks: asked.append(request))
    share = Share.of(3, RANKS, (70, 71))

    async def run() -> list[bool]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = f"127.0.0.1:{listening.getsockname()[1]}"
            aggregator = Aggregator(
                Place(
                    node=3,
                    topology=Topology(count=4, fan_out=2),
                    credentials=make_credentials(),
                    front_end=address,
                    grace_s=60.0,
                    own_address=address,
                    addresses=(address,) * 4,
                )
            )
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
    assert told == [share]
    assert [request.request_id for request in asked] == [1]
