"""Aggregators that the front end calls, since they cannot call it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup.links import Links
from pgdb.frontend.transport.overlay_root import Root
from pgdb.overlay.channel import Channel, listen
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import PROTOCOL_VERSION, Hello, Table
from pgdb.overlay.topology import Topology

NOBODY = "127.0.0.1:1"
TREE = Topology(count=2, fan_out=1)


def known(node: int, address: str, generation: int = 0) -> Hello:
    return Hello(
        version=PROTOCOL_VERSION,
        release="",
        node=node,
        host="h",
        pid=1,
        address=address,
        generation=generation,
    )


def test_who_took_the_place_of_a_lost_one_is_called_at_its_own_address() -> None:
    table = asyncio.run(_call_one_that_was_replaced())
    assert (table.node, table.generation) == (1, 1)


async def _call_one_that_was_replaced() -> Table:
    came: asyncio.Queue[Table] = asyncio.Queue()

    async def on_link(channel: Channel) -> None:
        table = await channel.receive()
        assert isinstance(table, Table)
        came.put_nowait(table)

    async def serve(channel: Channel) -> None:
        await channel.wait_ended()

    credentials = make_credentials()
    listener = await listen("127.0.0.1", credentials, on_link)
    nodes = {node: known(node, NOBODY) for node in range(2)}
    root = SimpleNamespace(known=nodes, joined={}, topology=TREE, serve_child=serve)
    links = Links(cast("Root", root), SessionOptions(grace_s=60.0))
    links.credentials = credentials
    try:
        async with asyncio.timeout(30.0):
            # It has called the first one that was node 1 in vain, and is about to do so again.
            links.keep_orphan(1)
            await asyncio.sleep(0)
            nodes[1] = known(1, f"127.0.0.1:{listener.port}", generation=1)
            links.keep_orphan(0)
            return await came.get()
    finally:
        await links.end()
        await listener.close()


def test_who_is_about_to_take_a_place_is_not_given_up_for_who_had_it() -> None:
    assert asyncio.run(_is_kept())


async def _is_kept() -> bool:
    root = SimpleNamespace(
        known={node: known(node, NOBODY) for node in range(2)}, joined={}, topology=TREE
    )
    links = Links(cast("Root", root), SessionOptions(grace_s=60.0))
    links.credentials = make_credentials()
    kept = links.keep("127.0.0.1:2", Table(node=1, count=2, fan_out=1, addresses=(), generation=1))
    try:
        links._call_orphans(0)
        await asyncio.sleep(0)
        return not kept.done()
    finally:
        await links.end()
