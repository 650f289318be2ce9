"""The front end's node of the tree: the origin of requests, and the end of answers."""

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
        on_announced: Callable[[tuple[EquivalenceClass[Event], ...]], None],
        on_late: Callable[[Gathered], None],
        on_lost: Callable[[Lost], None],
        on_notice: Callable[[Notice], None],
        on_joined: Callable[[Joined], None],
        on_asking: Callable[[], None],
        on_found: Callable[[Found], None],
    ) -> None:
        super().__init__(FRONT_END, topology)
        self.setup: Setup | None = None
        """The setup that all aggregators got, without the shares."""
        self._on_events = on_events
        self._on_announced = on_announced
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
        """Aggregators in the tree."""
        self.known: dict[int, Hello] = {}
        """Aggregators that are or were in the tree."""
        self.check: Callable[[AnyOperation, str], None] = lambda operation, command: None
        """Function that refuses operations that no rank can carry out."""
        self.on_delivered: Callable[[], None] = lambda: None
        """Called when the delivery of files has progressed."""

        self.bare: set[int] = set()
        """Aggregators that were cut off before they had got their setup, and are back."""
        self.on_bare: Callable[[], None] = lambda: None
        """Called when :attr:`bare` has grown."""

    def number_after(self, request_id: int) -> None:
        """Number requests from *request_id* + 1 on.

        The answers of an earlier launch of the job have other numbers than those of this one.
        """
        self._last_id = request_id

    @property
    def last_id(self) -> int:
        """The number of the last request, 0 before the first."""
        return self._last_id

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
        *,
        of_ended: bool = False,
    ) -> Gathered:
        """Ask *ranks*; return when all have answered, or when the tree's deadline has passed.

        :raises PgdbError: if :attr:`check` refuses the operation; its error names the *command*.
        """
        self.check(operation, command)
        if not ranks:
            return Gathered(request_id=request_id, classes=(), missing=Missing())
        future: asyncio.Future[Gathered] = self._loop.create_future()
        self._waiting[request_id] = future
        came = False
        try:
            self.start_request(
                Request(
                    request_id=request_id,
                    ranks=ranks,
                    operation=operation,
                    timeout_s=timeout_s,
                    of_ended=of_ended,
                )
            )
            gathered = await future
            came = True
            return gathered
        finally:
            self._waiting.pop(request_id, None)
            if not came and future.done() and not future.cancelled():
                # The caller gave up in the moment in which the answer came.
                self._on_late(future.result())

    def answered(self, gathered: Gathered) -> None:
        """Hand an answer to the call that waits for it, or else to *on_late*."""
        self.flush_before(gathered)
        waiting = self._waiting.get(gathered.request_id)
        if waiting is None or waiting.done() or gathered.is_late:
            self._on_late(gathered)
        else:
            waiting.set_result(gathered)

    def up(self, message: AnyMessage) -> None:
        """Process a message that has reached the top."""
        match message:
            case Events(classes=classes):
                self._on_events(classes)
            case Announce(classes=classes):
                self._on_announced(classes)
            case Found():
                self._on_found(message)
            case Joined(nodes=nodes):
                hellos = [Hello.unpack(data) for data in nodes]
                self.known.update((each.node, each) for each in hellos)
                self.joined.update((each.node, each) for each in hellos)
                self._on_joined(message)
                # A node below it got the same setup as its parent. A successor gets its setup from
                # the recovery that started it.
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
        """Raise an error: the front end has no ranks of its own."""
        raise AssertionError("the front end has no ranks")

    def apply_setup(self, setup: Setup) -> None:
        """Store the ranks of each aggregator, and send the setup to the children."""
        super().apply_setup(setup)
        self.bare.difference_update(share.node for share in setup.shares)
        self.setup = replace(setup, shares=())

    def ask_states(self) -> None:
        """Request the states of all ranks from their aggregators."""
        self.down(Announce(nodes=(), classes=()))

    def delivered(self) -> None:
        """Report that the delivery of files has progressed."""
        self.on_delivered()

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """The work of each node for the ranks' files, the front end first."""
        if self.delivery is None:
            return ()
        reports = self.delivery.reports
        return (self.delivery.own, *(reports[node] for node in sorted(reports)))

    @property
    def out_of_reach(self) -> dict[int, RankSet]:
        """The ranks of each aggregator outside the tree, for a time or for good."""
        return {node: share.ranks for node, share in self.shares.items() if node not in self.joined}

    @property
    def asking(self) -> frozenset[int]:
        """The aggregators that wait for their place, by the numbers that they came with."""
        return frozenset(self._asking)

    def accept_hello(self, hello: Hello, channel: Channel) -> bool:
        """Keep the link of an aggregator that only wants its table, until :meth:`seat`."""
        if not hello.wants_table:
            return True
        if hello.node in self._successors:
            channel.send(self.table_for(hello.node, hello.address))
            return False
        self._asking[hello.node] = (hello, channel)
        self._on_asking()
        return False

    def forget_hello(self, hello: Hello) -> None:
        """Forget an aggregator that has left without its table."""
        asking = self._asking.get(hello.node)
        if asking is not None and asking[0] is hello:  # none of a later attempt's
            del self._asking[hello.node]

    def expect_successor(self, node: int) -> None:
        """Give the place of a lost node to the next one that asks for a place in its name.

        The node of a place that :meth:`add_places` has made joins as a successor does.
        """
        known = self.known.get(node)
        self._successors[node] = known.generation + 1 if known is not None else 1

    def add_places(self, count: int) -> range:
        """Make the tree larger by *count* places; return their numbers.

        The aggregators keep the size that they know: they find nodes below them by their hellos.
        """
        old = self.topology
        self.topology = replace(old, count=old.count + count)
        return range(old.count, old.count + count)

    def table_for(self, node: int, address: str, *, is_parent: bool = False) -> Table:
        """Return the table for the aggregator at *address*, the successor of a lost one.

        The table leaves other lost aggregators out: the successor would try to reach them. So it
        does aggregators at a loopback address, if this one is on another host.
        """
        joined = self.joined
        is_near = _is_loopback(address)
        addresses = [
            joined[each].address
            if each in joined and (is_near or not _is_loopback(joined[each].address))
            else ""
            for each in range(self.topology.count)
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
        """Give all waiting aggregators a place, in a tree that has only them."""
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
        """Drop all links, for another attempt to start the overlay."""
        channels = (*self._channels.values(), *(each for _, each in self._asking.values()))
        # Forgotten first: a late end of a link would count as a loss in the next attempt.
        for each in (self._channels, self._nodes_below, self._hellos, self._asking, self.known):
            each.clear()
        for channel in channels:
            channel.close()
        self.joined.clear()


def _is_loopback(address: str) -> bool:
    return address.startswith("127.")
