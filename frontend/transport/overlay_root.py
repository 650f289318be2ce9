"""The front end's node of the tree: where requests start and where answers end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.channel import Channel
from pgdb.overlay.messages import (
    FRONT_END,
    Announce,
    AnyMessage,
    AnyOperation,
    Delivered,
    Events,
    Found,
    Hello,
    Joined,
    Lost,
    Notice,
    Request,
    Setup,
    Table,
)
from pgdb.overlay.node import TreeNode
from pgdb.overlay.router import Gathered
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Event


class Root(TreeNode):
    """The node above all aggregators."""

    def __init__(
        self,
        topology: Topology,
        *,
        on_events: Callable[[tuple[EquivalenceClass[Event], ...]], None],
        on_late: Callable[[Gathered], None],
        on_lost: Callable[[Lost], None],
        on_notice: Callable[[Notice], None],
        on_joined: Callable[[Joined], None],
        on_asking: Callable[[], None],
        on_found: Callable[[Found], None],
    ) -> None:
        super().__init__(FRONT_END, topology)
        self.setup: Setup | None = None
        """What was told to all aggregators, without the shares."""
        self._on_events = on_events
        self._on_late = on_late
        self._on_lost = on_lost
        self._on_notice = on_notice
        self._on_joined = on_joined
        self._on_asking = on_asking
        self._on_found = on_found
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Gathered]] = {}
        self._asking: dict[int, tuple[Hello, Channel]] = {}
        self._successors: dict[int, int] = {}  # node -> generation of who is to take its place
        self.joined: dict[int, Hello] = {}
        """Aggregators that have joined the tree and were not lost."""
        self.known: dict[int, Hello] = {}
        """All aggregators that have ever been in the tree."""
        self.on_delivered: Callable[[], None] = lambda: None
        """Called when files have come along."""

        self.bare: set[int] = set()
        """Aggregators that were cut off before they had been told of their ranks, and are back."""
        self.on_bare: Callable[[], None] = lambda: None
        """Called when there are such."""

    def next_id(self) -> int:
        """Return a new request number."""
        self._last_id += 1
        return self._last_id

    async def ask(
        self,
        request_id: int,
        ranks: RankSet,
        operation: AnyOperation,
        timeout_s: float,
        command: str = "",
    ) -> Gathered:
        """Ask *ranks*; return when all have answered, or when the tree's deadline has passed.

        The *command* is for transports whose errors name it.
        """
        del command
        if not ranks:
            return Gathered(request_id=request_id, classes=(), missing=Missing())
        future: asyncio.Future[Gathered] = self._loop.create_future()
        self._waiting[request_id] = future
        came = False
        try:
            self.start_request(
                Request(
                    request_id=request_id, ranks=ranks, operation=operation, timeout_s=timeout_s
                )
            )
            gathered = await future
            came = True
            return gathered
        finally:
            self._waiting.pop(request_id, None)
            if not came and future.done() and not future.cancelled():
                # Given up in the moment in which it came.
                self._on_late(future.result())

    def answered(self, gathered: Gathered) -> None:
        """Hand what has come back to who has asked, and what nobody waits for to *on_late*."""
        self.flush_notices()
        waiting = self._waiting.get(gathered.request_id)
        if waiting is None or waiting.done() or gathered.is_late:
            self._on_late(gathered)
        else:
            waiting.set_result(gathered)

    def up(self, message: AnyMessage) -> None:
        """Take what has reached the top."""
        match message:
            case Events(classes=classes):
                self._on_events(classes)
            case Announce(classes=classes):
                self._on_events(classes)
            case Found():
                self._on_found(message)
            case Joined(nodes=nodes):
                hellos = [Hello.unpack(data) for data in nodes]
                self.known.update((each.node, each) for each in hellos)
                self.joined.update((each.node, each) for each in hellos)
                self._on_joined(message)
                # What its parent has been told, a node has been told. Those that were started
                # again are told by whoever did that.
                head = hellos[0]
                if self.setup is not None and not head.is_set_up and not head.generation:
                    self.bare.update(each.node for each in hellos)
                    self.on_bare()
            case Lost(nodes=nodes):
                for node in nodes:
                    self.joined.pop(node, None)
                self._on_lost(message)
            case Notice():
                self._on_notice(message)

    def ask_own(self, request: Request, ranks: RankSet) -> None:
        """Never called: the front end has no ranks of its own."""
        raise AssertionError("the front end has no ranks")

    def apply_setup(self, setup: Setup) -> None:
        """Learn who debugs which ranks, and tell the children."""
        super().apply_setup(setup)
        self.bare.difference_update(share.node for share in setup.shares)
        self.setup = replace(setup, shares=())

    def ask_states(self) -> None:
        """Have all aggregators tell what their ranks are doing."""
        self.down(Announce(nodes=(), classes=()))

    def delivered(self) -> None:
        """Take that files have come along."""
        self.on_delivered()

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """What each node has had to do with the ranks' files, the front end first."""
        if self.delivery is None:
            return ()
        reports = self.delivery.reports
        return (self.delivery.own, *(reports[node] for node in sorted(reports)))

    @property
    def out_of_reach(self) -> dict[int, RankSet]:
        """The ranks of each aggregator that is not in the tree, for now or for good."""
        return {node: share.ranks for node, share in self.shares.items() if node not in self.joined}

    @property
    def asking(self) -> frozenset[int]:
        """The aggregators that ask for their place, by the numbers they came with."""
        return frozenset(self._asking)

    def accept_hello(self, hello: Hello, channel: Channel) -> bool:
        """Keep those that only want the table, until :meth:`seat` answers them."""
        if not hello.wants_table:
            return True
        if hello.node in self._successors:
            channel.send(self.table_for(hello.node, hello.address))
            return False
        self._asking[hello.node] = (hello, channel)
        self._on_asking()
        return False

    def forget_hello(self, hello: Hello) -> None:
        """Forget one that asked for the table and has left."""
        asking = self._asking.get(hello.node)
        if asking is not None and asking[0] is hello:  # none of a later attempt's
            del self._asking[hello.node]

    def expect_successor(self, node: int) -> None:
        """Give the place of a lost node to the next one that asks for a place in its name."""
        self._successors[node] = self.known[node].generation + 1

    def table_for(self, node: int, address: str, *, is_parent: bool = False) -> Table:
        """Return what the aggregator at *address* needs to take the place of a lost one.

        Of others that are lost it hears nothing: it would try to reach them.
        """
        joined = self.joined
        addresses = [
            joined[each].address if each in joined else "" for each in range(self.topology.count)
        ]
        addresses[node] = address
        return Table(
            node=node,
            count=self.topology.count,
            fan_out=self.topology.fan_out,
            addresses=tuple(addresses),
            is_parent=is_parent,
            generation=self._successors[node],
        )

    def seat(self) -> None:
        """Give all that ask for it their place in a tree of just them."""
        nodes = sorted(self._asking)
        topology = Topology(count=len(nodes), fan_out=self.topology.fan_out)
        self.place(FRONT_END, topology)
        addresses = tuple(self._asking[node][0].address for node in nodes)
        for number, node in enumerate(nodes):
            table = Table(
                node=number, count=len(nodes), fan_out=topology.fan_out, addresses=addresses
            )
            self._asking[node][1].send(table)

    def begin_again(self) -> None:
        """Drop all links, for another attempt at raising the overlay."""
        channels = (*self._channels.values(), *(each for _, each in self._asking.values()))
        # Forgotten first: the end of a link that is late would be a loss of the next attempt's.
        for each in (self._channels, self._nodes_below, self._hellos, self._asking, self.known):
            each.clear()
        for channel in channels:
            channel.close()
        self.joined.clear()
