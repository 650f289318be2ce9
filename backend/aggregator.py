"""One aggregator: a node of the tree between a parent and its children, with a leaf of its own.

It lives as long as its session: it leaves when told to, when the process that started it ends,
or when no parent and no ancestor has been reachable for the grace time. However it leaves, its
ranks run on free.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from dataclasses import dataclass

from pgdb.backend.leaf import Leaf
from pgdb.errors import LinkError, PgdbError
from pgdb.merge.answer import Merger, Missing
from pgdb.overlay.channel import Channel, connect
from pgdb.overlay.messages import (
    FRONT_END,
    PROTOCOL_VERSION,
    Announce,
    AnyMessage,
    Hello,
    Joined,
    Request,
    Setup,
    Shutdown,
    Table,
)
from pgdb.overlay.node import TreeNode, release
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Event, Record

LOG = logging.getLogger(__name__)

FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class Place:
    """An aggregator's place in the tree, as the wire-up found it."""

    node: int
    topology: Topology
    credentials: bytes
    front_end: str
    """``host:port`` at which the front end listens."""
    own_address: str
    grace_s: float
    """How long to live on without any parent."""
    addresses: tuple[str, ...] = ()
    """``host:port`` of every aggregator; empty when the front end is to tell (no MPI)."""


class Aggregator(TreeNode):
    """A node of the tree on a host of the job."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.node, place.topology)
        self._place = place
        self._addresses = place.addresses
        self._parent: Channel | None = None
        self._setup: Setup | None = None
        self._grace_s = place.grace_s
        self._leaving = asyncio.Event()
        self._leaf = Leaf(
            on_answer=self._answered, on_missing=self._not_answering, on_event=self.add_event
        )

    async def run(self) -> None:
        """Serve until it is time to leave, then let the ranks go."""
        upward = asyncio.create_task(self._keep_parent())
        await self._leaving.wait()
        LOG.info("leaving")
        # Children first hear that it is over, so that they do not look for another parent.
        self.down(Shutdown())
        await self._leaf.close()
        upward.cancel()
        await asyncio.gather(upward, return_exceptions=True)
        channels = list(self._channels.values())
        if self._parent is not None:
            self.flush_events()
            channels.append(self._parent)
        for channel in channels:
            channel.close()
        await asyncio.gather(*(channel.wait_closed(5.0) for channel in channels))

    def leave(self) -> None:
        """Ask this aggregator to leave."""
        self._leaving.set()

    # -- upwards -----------------------------------------------------------------------------

    def up(self, message: AnyMessage) -> None:
        """Send a message to the parent; without one it waits for no one (see Announce)."""
        if self._parent is not None:
            self._parent.send(message)

    async def _keep_parent(self) -> None:
        """Have a parent: the own one first, then its ancestors up to the front end."""
        try:
            if not self._addresses:
                await self._ask_front_end_for_table()
            while True:
                channel = await self._find_parent()
                try:
                    await self._serve_parent(channel)
                except PgdbError as error:
                    LOG.warning("lost the parent: %s", error)
                finally:
                    self._parent = None
                    channel.close()
        except TimeoutError:
            LOG.warning("no parent for %g s", self._grace_s)
        except PgdbError as error:
            LOG.error("cannot join the session: %s", error)
        self.leave()

    async def _find_parent(self) -> Channel:
        wait_s = FIRST_RETRY_S
        async with asyncio.timeout(self._grace_s):
            while True:
                for ancestor in self.topology.ancestors(self.number):
                    try:
                        return await connect(self._address(ancestor), self._place.credentials)
                    except LinkError as error:
                        LOG.warning("node %d: %s", ancestor, error)
                await asyncio.sleep(wait_s)
                wait_s = min(LAST_RETRY_S, 2 * wait_s)

    def _address(self, node: int) -> str:
        return self._place.front_end if node == FRONT_END else self._addresses[node]

    def _hello(self, *, wants_table: bool = False) -> Hello:
        below = {node for nodes in self._nodes_below.values() for node in nodes}
        return Hello(
            version=PROTOCOL_VERSION,
            release=release(),
            node=self.number,
            host=socket.gethostname(),
            pid=os.getpid(),
            address=self._place.own_address,
            wants_table=wants_table,
            subtree=tuple(sorted({self.number, *below})),
        )

    async def _ask_front_end_for_table(self) -> None:
        channel = await connect(self._place.front_end, self._place.credentials)
        try:
            channel.send(self._hello(wants_table=True))
            message = await channel.receive()
        finally:
            channel.close()
        if not isinstance(message, Table):
            raise LinkError(f"the front end sent {type(message).__name__} instead of the table")
        self._addresses = message.addresses

    async def _serve_parent(self, channel: Channel) -> None:
        channel.send(self._hello())
        self._parent = channel
        below = {node for nodes in self._nodes_below.values() for node in nodes}
        hellos = tuple(self._hellos[node] for node in sorted(below) if node in self._hellos)
        if hellos:
            channel.send(Joined(nodes=hellos))
        if self._setup is not None:
            # Nothing of the old traffic is sent again: what the ranks do now is the truth.
            self._announce()
        while True:
            message = await channel.receive()
            match message:
                case Request():
                    self.start_request(message)
                case Setup():
                    self._take_setup(message)
                case Shutdown():
                    self.leave()
                    await asyncio.Event().wait()
                case _:
                    raise LinkError(f"the parent sent {type(message).__name__}")

    def _announce(self) -> None:
        self.flush_events()
        merger: Merger[Event] = Merger()
        merger.add_classes(self._leaf.states())
        nodes = {self.number, *(n for nodes in self._nodes_below.values() for n in nodes)}
        self.up(Announce(nodes=tuple(sorted(nodes)), classes=merger.classes))

    def _take_setup(self, setup: Setup) -> None:
        self._setup = setup
        self.apply_setup(setup)
        share = self.shares.get(self.number)
        if share is not None:
            self._leaf.setup(setup, share)

    # -- the leaf ----------------------------------------------------------------------------

    def ask_own(self, request: Request, ranks: RankSet) -> None:
        """Have this aggregator's GDBs answer."""
        self._leaf.ask(request, ranks)

    def _answered(self, request_id: int, rank: int, record: Record, slots: tuple[str, ...]) -> None:
        for reply in self.router.add_answer(request_id, RankSet([rank]), record, slots):
            self.up(reply)

    def _not_answering(self, request_id: int, missing: Missing) -> None:
        for reply in self.router.add_missing(request_id, missing):
            self.up(reply)
