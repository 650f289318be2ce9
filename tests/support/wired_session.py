"""Real aggregators with their front end over loopback, in one process.

The front end listens or calls. The aggregators know each other's addresses (from MPI) or do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

from pgdb.backend.node.aggregator import Aggregator, Place
from pgdb.frontend.transport.overlay_root import Root
from pgdb.overlay.channel import Listener, connect, listen, listen_on
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import Found, Lost, Shutdown, Table
from pgdb.overlay.topology import Topology
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
            on_announced=lambda classes: None,
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


class WiredSession:
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


def run_wired(
    test: Callable[[WiredSession], Coroutine[Any, Any, None]], *, count: int, fan_out: int = 2
) -> None:
    @asynccontextmanager
    async def session() -> AsyncIterator[WiredSession]:
        made = WiredSession(count, fan_out)
        try:
            yield made
        finally:
            await made.close()

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S), session() as made:
            await test(made)

    asyncio.run(bounded())
