"""The front end's node of the tree: where requests start and where answers end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from pgdb.merge.answer import EquivalenceClass, Missing
from pgdb.merge.graph import from_graph
from pgdb.overlay.channel import Channel
from pgdb.overlay.messages import (
    FRONT_END,
    Announce,
    AnyMessage,
    AnyOperation,
    Events,
    Hello,
    Joined,
    Lost,
    Reply,
    Request,
    Table,
)
from pgdb.overlay.node import TreeNode
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Event, Record


class Gathered(msgspec.Struct, frozen=True):
    """What came back for one request."""

    request_id: int
    classes: tuple[EquivalenceClass[Record], ...]
    missing: Missing


class Root(TreeNode):
    """The node above all aggregators."""

    def __init__(
        self,
        topology: Topology,
        *,
        on_events: Callable[[tuple[EquivalenceClass[Event], ...]], None],
        on_late: Callable[[Gathered], None],
        on_lost: Callable[[Lost], None],
        on_joined: Callable[[Joined], None],
    ) -> None:
        super().__init__(FRONT_END, topology)
        self._on_events = on_events
        self._on_late = on_late
        self._on_lost = on_lost
        self._on_joined = on_joined
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Gathered]] = {}
        self._want_table: dict[int, tuple[Hello, Channel]] = {}
        self.joined: dict[int, Hello] = {}
        """Aggregators that have joined the tree and were not lost."""

    def next_id(self) -> int:
        """Return a new request number."""
        self._last_id += 1
        return self._last_id

    async def ask(
        self, request_id: int, ranks: RankSet, operation: AnyOperation, timeout_s: float
    ) -> Gathered:
        """Ask *ranks*; return when all have answered, or when the tree's deadline has passed."""
        if not ranks:
            return Gathered(request_id=request_id, classes=(), missing=Missing())
        future: asyncio.Future[Gathered] = self._loop.create_future()
        self._waiting[request_id] = future
        try:
            self.start_request(
                Request(
                    request_id=request_id, ranks=ranks, operation=operation, timeout_s=timeout_s
                )
            )
            return await future
        finally:
            self._waiting.pop(request_id, None)

    def up(self, message: AnyMessage) -> None:
        """Take what has reached the top."""
        match message:
            case Reply(request_id=request_id):
                gathered = Gathered(
                    request_id=request_id,
                    classes=from_graph(message.graph),
                    missing=message.missing,
                )
                waiting = self._waiting.get(request_id)
                if message.late:
                    self._on_late(gathered)
                elif waiting is not None and not waiting.done():
                    waiting.set_result(gathered)
            case Events(classes=classes):
                self._on_events(classes)
            case Announce(classes=classes):
                self._on_events(classes)
            case Joined(nodes=nodes):
                for hello in nodes:
                    self.joined[hello.node] = hello
                self._on_joined(message)
            case Lost(nodes=nodes):
                for node in nodes:
                    self.joined.pop(node, None)
                self._on_lost(message)

    def ask_own(self, request: Request, ranks: RankSet) -> None:
        """Never called: the front end has no ranks of its own."""
        raise AssertionError("the front end has no ranks")

    def accept_hello(self, hello: Hello, channel: Channel) -> bool:
        """Answer those that only want the table, once all have asked."""
        if not hello.wants_table:
            return True
        self._want_table[hello.node] = (hello, channel)
        if len(self._want_table) == self.topology.count:
            addresses = tuple(
                self._want_table[node][0].address for node in range(self.topology.count)
            )
            for _, asking in self._want_table.values():
                asking.send(Table(addresses=addresses))
        return False
