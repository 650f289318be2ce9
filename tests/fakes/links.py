"""Links over loopback with real TLS, and both of their ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from pgdb.overlay.channel import Channel, Listener, connect, listen
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import (
    Lost,
    Table,
)
from pgdb.ranks import RankSet

CREDENTIALS = make_credentials()
DEADLINE_S = 20.0
TABLE = Table(node=0, count=1, fan_out=32, addresses=("h:1",))


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test()

    asyncio.run(bounded())


class Accepted:
    """Collector of the links that a listener admits."""

    def __init__(self) -> None:
        self.channels: asyncio.Queue[Channel] = asyncio.Queue()
        self.count = 0
        self._over = asyncio.Event()

    async def __call__(self, channel: Channel) -> None:
        self.count += 1
        self.channels.put_nowait(channel)
        await self._over.wait()

    def end(self) -> None:
        self._over.set()


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Listener, Accepted]]:
    accepted = Accepted()
    listener = await listen("127.0.0.1", CREDENTIALS, accepted)
    try:
        yield listener, accepted
    finally:
        accepted.end()
        await listener.close()


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[Channel, Channel]]:
    async with listening() as (listener, accepted):
        near = await connect(f"127.0.0.1:{listener.port}", CREDENTIALS)
        far = await accepted.channels.get()
        try:
            yield near, far
        finally:
            for each in (near, far):
                each.close()
            await asyncio.gather(near.wait_closed(5.0), far.wait_closed(5.0))


def lost(why: str) -> Lost:
    return Lost(nodes=(), ranks=RankSet(), why=why)
