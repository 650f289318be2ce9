"""A node that listens for links, in the loop of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from pgdb.overlay.channel import Channel, Listener, connect, listen
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import Lost
from pgdb.ranks import RankSet

CREDENTIALS = make_credentials()
DEADLINE_S = 60.0


def run_in_time(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test in a loop of its own; fail it at the deadline."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test()

    asyncio.run(bounded())


def say(what: str) -> Lost:
    return Lost(nodes=(), ranks=RankSet(), why=what)


class ListeningNode:
    """A node that listens and counts the peers that it admits."""

    def __init__(self) -> None:
        self.admitted = 0
        self.channels: asyncio.Queue[Channel] = asyncio.Queue()
        self.listener: Listener
        self._over = asyncio.Event()

    async def serve(self, channel: Channel) -> None:
        self.admitted += 1
        self.channels.put_nowait(channel)
        await self._over.wait()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.listener.port}"

    async def close(self) -> None:
        self._over.set()
        await self.listener.close()


@contextlib.asynccontextmanager
async def listening_node() -> AsyncIterator[ListeningNode]:
    made = ListeningNode()
    made.listener = await listen("127.0.0.1", CREDENTIALS, made.serve)
    try:
        yield made
    finally:
        await made.close()


async def check_works(made: ListeningNode) -> None:
    """Check that the listener still admits and hears a node of the session."""
    near = await connect(made.address, CREDENTIALS)
    far = await made.channels.get()
    near.send(say("hello"))
    assert await far.receive() == say("hello")
    for each in (near, far):
        each.close()
        await each.wait_closed(5.0)


async def wait_left(made: ListeningNode) -> None:
    """Wait until no connection is left that has not proved that it belongs to the session."""
    while made.listener._pending:
        await asyncio.sleep(0.01)
