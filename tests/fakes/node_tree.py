"""A tree of nodes in one process, over real links, whose ranks answer by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from pgdb.errors import LinkError
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.merge.graph import from_graph
from pgdb.overlay.channel import Channel, Listener, connect, listen
from pgdb.overlay.credentials import make_credentials
from pgdb.overlay.messages import (
    FRONT_END,
    PROTOCOL_VERSION,
    AnyMessage,
    Evaluate,
    Events,
    Hello,
    Joined,
    Lost,
    Reply,
    Request,
    Setup,
    Share,
)
from pgdb.overlay.node import TreeNode, release
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Output, Record, Value

CREDENTIALS = make_credentials()
DEADLINE_S = 20.0


class Node(TreeNode):
    """A node whose own ranks answer with their number; it records its messages for the test."""

    def __init__(self, number: int, topology: Topology) -> None:
        super().__init__(number, topology)
        self.parent: Channel | None = None
        self.joins = 0
        self.taken: list[AnyMessage] = []
        self.changed = asyncio.Condition()
        self.silent = RankSet()
        self.listener: Listener | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        assert self.listener is not None
        return f"127.0.0.1:{self.listener.port}"

    def up(self, message: AnyMessage) -> None:
        if self.parent is not None:
            self.parent.send(message)
        self.taken.append(message)
        self._loop.create_task(self._notify())

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def ask_own(self, request: Request, ranks: RankSet) -> None:
        for rank in ranks - self.silent:
            record = Value(text=str(rank % 2))
            said: EquivalenceClass[Record] = EquivalenceClass(RankSet([rank]), record)
            for gathered in self.router.add_answer(request.request_id, said):
                self.answered(gathered)

    def hello(self, **changes: Any) -> Hello:
        below = {node for nodes in self._nodes_below.values() for node in nodes}
        hello = Hello(
            version=PROTOCOL_VERSION,
            release=release(),
            node=self.number,
            host="h",
            pid=1,
            joins=self.joins,
            below=tuple(self._hellos[node] for node in sorted(below)),
        )
        return msgspec.structs.replace(hello, **changes)

    async def serve_parent(self, address: str) -> None:
        """Make this node a child of the one at *address* until that link ends."""
        channel = self.parent = await connect(address, CREDENTIALS)
        self.joins += 1
        channel.send(self.hello())
        try:
            while True:
                message = await channel.receive()
                if isinstance(message, Request):
                    self.start_request(message)
                elif isinstance(message, Setup):
                    self.apply_setup(message)
        except LinkError:
            pass
        finally:
            if self.parent is channel:
                self.parent = None
            channel.close()
            await channel.wait_closed(5.0)

    async def wait(self, holds: Callable[[list[AnyMessage]], bool]) -> None:
        async with self.changed:
            await self.changed.wait_for(lambda: holds(self.taken))

    async def wait_event(self) -> None:
        """Wait until an event of a child waits here for further ones."""
        while not self._events:
            await asyncio.sleep(0)

    async def crash(self) -> None:
        """End all links at once without a message, as the death of a process does."""
        assert self.listener is not None and self.parent is not None
        await self.listener.close()
        for channel in (self.parent, *self._channels.values()):
            channel._writer.transport.abort()


Tree = dict[int, Node]


def run(test: Callable[[Tree], Coroutine[Any, Any, None]], *, count: int = 7) -> None:
    """Run *test* on a binary tree of *count* nodes, each with two ranks, below a front end."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S), tree(count) as nodes:
            await test(nodes)

    asyncio.run(bounded())


def setup_of(count: int) -> Setup:
    return Setup(
        shares=tuple(
            Share.of(node, RankSet([2 * node, 2 * node + 1]), (1, 1)) for node in range(count)
        ),
        gdb="gdb",
    )


@asynccontextmanager
async def tree(count: int) -> AsyncIterator[Tree]:
    topology = Topology(count=count, fan_out=2)
    nodes = {number: Node(number, topology) for number in range(FRONT_END, count)}
    for node in nodes.values():
        node.listener = await listen("127.0.0.1", CREDENTIALS, node.serve_child)
    try:
        for number in range(count):
            nodes[number].task = asyncio.create_task(
                nodes[number].serve_parent(nodes[topology.parent(number)].address)
            )
        root = nodes[FRONT_END]
        await root.wait(lambda taken: joined(taken) == set(range(count)))
        root.apply_setup(setup_of(count))
        await settled(nodes.values())
        yield nodes
    finally:
        for node in nodes.values():
            if node._event_timer is not None:
                node._event_timer.cancel()
            if node._deadline_timer is not None:
                node._deadline_timer.cancel()
            assert node.listener is not None
            await node.listener.close()
            for channel in list(node._channels.values()):
                channel.close()
        tasks = [node.task for node in nodes.values() if node.task is not None]
        await asyncio.gather(*tasks)


async def settled(nodes: Iterable[Node]) -> None:
    """Wait until every node has the setup: then it knows its own ranks."""
    while not all(node.number == FRONT_END or node.router.own for node in nodes):
        await asyncio.sleep(0)


def joined(taken: list[AnyMessage]) -> set[int]:
    return {
        Hello.unpack(data).node for each in taken if isinstance(each, Joined) for data in each.nodes
    }


def replies(taken: list[AnyMessage], number: int) -> list[Reply]:
    return [each for each in taken if isinstance(each, Reply) and each.request_id == number]


def losses(taken: list[AnyMessage]) -> list[Lost]:
    return [each for each in taken if isinstance(each, Lost)]


def said(reply: Reply) -> dict[str, str]:
    found = {}
    for each in from_graph(reply.graph)[0]:
        assert isinstance(each.record, Value)
        found[str(each.ranks)] = each.record.text
    return found


def missing(reply: Reply) -> Missing:
    return from_graph(reply.graph)[1]


async def ask(root: Node, ranks: RankSet, *, number: int, timeout_s: float = 10.0) -> Reply:
    root.start_request(
        Request(
            request_id=number,
            ranks=ranks,
            operation=Evaluate(expression="x"),
            timeout_s=timeout_s,
        )
    )
    await root.wait(lambda taken: bool(replies(taken, number)))
    return replies(root.taken, number)[0]


ALL = RankSet.range(0, 14)

in_both_sizes = pytest.mark.usefixtures("size")


def output(text: str) -> Output:
    return Output(text=text)


def reported(taken: list[AnyMessage], rank: int) -> list[str]:
    return [
        each.record.text
        for message in taken
        if isinstance(message, Events)
        for each in message.classes
        if rank in each.ranks and isinstance(each.record, Output)
    ]


async def first_words(nodes: Tree, *messages: AnyMessage) -> Channel:
    channel = await connect(nodes[0].address, CREDENTIALS)
    for each in messages:
        channel.send(each)
    return channel
