"""One aggregator: a node of the tree between a parent and its children, with a leaf of its own.

It lives as long as its session: it leaves when it is asked to, when the process that started it
ends, or when no ancestor has been reachable for the grace time. In each case its ranks run on free.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pgdb.backend.node.core_search import CoreSearcher
from pgdb.backend.node.leaf import Leaf
from pgdb.backend.rank.protocol import OpenFactory
from pgdb.errors import LinkError, PgdbError
from pgdb.merge.classes import EquivalenceClass, Merger, Missing
from pgdb.overlay.addresses import own_names
from pgdb.overlay.channel import CALLED_LATER_S, SILENT, Channel, close_unused, connect
from pgdb.overlay.messages import (
    FRONT_END,
    PROTOCOL_VERSION,
    Announce,
    AnyMessage,
    FilePart,
    FilesAre,
    Find,
    Found,
    Hello,
    Reply,
    Request,
    Setup,
    Shutdown,
    Table,
    WantFiles,
    WantPart,
)
from pgdb.overlay.node import TreeNode, release
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Event, Record

LOG = logging.getLogger(__name__)

FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
NEXT_ANCESTOR_S = 1.0
"""Time after which the next ancestor is tried as well, in seconds."""
HAND_ON_TIMEOUT_S = 5.0
MOST_UNSENT = 16
"""Number of answers that wait for a parent; each can have some megabytes."""


class Place(msgspec.Struct, frozen=True):
    """An aggregator's place in the tree, as the wire-up found it."""

    node: int
    topology: Topology
    credentials: bytes
    front_end: str
    """``host:port`` at which the front end listens; empty if it calls node 0."""
    own_address: str
    grace_s: float
    """Time to live without a parent, in seconds."""
    addresses: tuple[str, ...] = ()
    """``host:port`` of every aggregator; empty if a :class:`Table` will bring them (no MPI)."""


class Aggregator(TreeNode):
    """A node of the tree on a host of the job."""

    def __init__(self, place: Place, open_factory: OpenFactory) -> None:
        super().__init__(place.node, place.topology)
        self._place = place
        self._addresses = place.addresses
        self._parent: Channel | None = None
        self._joins = 0
        self._unsent: list[Reply] = []
        self.failure = ""
        """Reason why it could not join the session; empty if it did."""
        self._called: asyncio.Future[Channel] = self._loop.create_future()
        self._ranks = RankSet()
        self._is_asked = False
        self._table_has_come = asyncio.Event()
        if place.addresses:
            self._table_has_come.set()
        self._setup: Setup | None = None
        self._generation = 0
        # A task without a reference may be collected before it is done.
        self._handing_on: asyncio.Task[None] | None = None
        self._finding: asyncio.Task[None] | None = None
        self._grace_s = place.grace_s
        self._leaving = asyncio.Event()
        self._core_searcher = CoreSearcher()
        self._leaf = Leaf(
            open_factory=open_factory,
            on_answer=self._answered,
            on_missing=self._not_answering,
            on_event=self.add_event,
            notice=self.add_notice,
        )

    async def run(self) -> None:
        """Serve until it is time to leave, then detach from the ranks."""
        upward = asyncio.create_task(self._keep_parent())
        await self._leaving.wait()
        LOG.info("leaving")
        # Children are informed first, so that they do not look for another parent.
        self.down(Shutdown())
        await self._leaf.close()
        await self._core_searcher.close()
        if self.delivery is not None:
            await self.delivery.close()
        upward.cancel()
        await asyncio.gather(upward, return_exceptions=True)
        channels = list(self._channels.values())
        if self._parent is not None:
            self.flush_events()
            self.flush_notices()
            channels.append(self._parent)
        for channel in channels:
            channel.close()
        await asyncio.gather(*(channel.wait_closed(5.0) for channel in channels))

    def leave(self) -> None:
        """Ask this aggregator to leave."""
        self._leaving.set()

    # -- links that others open --------------------------------------------------------------

    async def serve_link(self, channel: Channel) -> None:
        """Serve one link: of a child, or of a front end or parent that brings the table."""
        try:
            first = await channel.receive()
        except PgdbError as error:
            LOG.info("a link ended before it began: %s", error)
            return
        if not isinstance(first, Table):
            await self.serve_child(channel, first)
            return
        self._take_table(first)
        # A front end that calls the first one knows that it has lost the link.
        is_called = not self.number and not self._place.front_end
        if not first.is_parent or (self._parent is not None and not is_called):
            return
        if self._called.done():
            self._called = self._loop.create_future()
        self._called.set_result(channel)
        # The link is the parent's from now on; the code that serves the parent closes it.
        await channel.wait_ended()

    def _take_table(self, table: Table) -> None:
        if table.addresses and not self._table_has_come.is_set():
            self._addresses = table.addresses
            self._generation = table.generation
            self.place(table.node, Topology(count=table.count, fan_out=table.fan_out))
            if not self._place.front_end and not table.generation:
                self._handing_on = asyncio.create_task(self._hand_on(table))
        self._table_has_come.set()

    async def _hand_on(self, table: Table) -> None:
        """Send the children their places, where the front end can reach only node 0."""
        for child in self.topology.children(self.number):
            try:
                channel = await connect(table.addresses[child], self._place.credentials)
            except LinkError as error:
                LOG.warning("cannot send node %d its place: %s", child, error)
                continue
            channel.send(replace(table, node=child, is_parent=False))
            channel.close()
            await channel.wait_closed(HAND_ON_TIMEOUT_S)

    # -- upwards -----------------------------------------------------------------------------

    def up(self, message: AnyMessage) -> None:
        """Send a message to the parent; without a parent only answers wait for one (see Announce).

        The front end has learned that the ranks are lost, and takes their answers as late ones.
        """
        if self._parent is not None:
            self._parent.send(message)
        elif isinstance(message, Reply) and len(self._unsent) < MOST_UNSENT:
            self._unsent.append(message)

    async def _keep_parent(self) -> None:
        """Keep a link to a parent: the own one first, then its ancestors up to the front end."""
        limit_s = self._grace_s
        try:
            if not self._addresses:
                await self._get_table()
            while True:
                channel = await self._find_parent(limit_s)
                try:
                    await self._serve_parent(channel)
                except PgdbError as error:
                    LOG.warning("lost the parent: %s", error)
                    limit_s = self._grace_s
                    if str(error).startswith(SILENT) and not self._place.front_end:
                        limit_s += CALLED_LATER_S
                finally:
                    self._parent = None
                    channel.close()
        except TimeoutError:
            LOG.warning("no parent for %g s", limit_s)
        except PgdbError as error:
            self.failure = f"cannot join the session: {error}"
        except Exception:
            # A bug, or a machine without any resource left. Nobody would ever resume the ranks.
            LOG.exception("keeping a parent failed")
        self.leave()

    async def _get_table(self) -> None:
        if self._place.front_end:
            await self._ask_front_end_for_table()
        else:
            async with asyncio.timeout(self._grace_s):
                await self._table_has_come.wait()

    async def _find_parent(self, limit_s: float) -> Channel:
        wait_s = FIRST_RETRY_S
        async with asyncio.timeout(limit_s):
            if self.number == 0 and not self._place.front_end:
                return await self._take_call()
            ancestors = [
                ancestor
                for ancestor in self.topology.ancestors(self.number)
                if ancestor != FRONT_END or self._place.front_end
            ]
            while True:
                try:
                    return await self._reach_one_of(ancestors)
                except LinkError:
                    if not self._joins and not self._generation:
                        # All aggregators listen before they learn of each other, so waiting cannot
                        # help.
                        raise
                # A front end that we cannot reach calls the aggregators that have lost their
                # parent.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        return await self._take_call()
                wait_s = min(LAST_RETRY_S, 2 * wait_s)

    async def _reach_one_of(self, ancestors: Sequence[int]) -> Channel:
        """Connect to the first ancestor that answers, unless we are called meanwhile.

        The nearest ancestor is tried first. An ancestor that hangs, or whose host is silent, takes
        its time; the ancestors above it must not wait for that until our grace time is over. At the
        start all ancestors live, and the tree must get its intended shape.

        :raises LinkError: if no ancestor can be reached.
        """
        patience_s = NEXT_ANCESTOR_S if self._joins or self._generation else None
        problem = LinkError("it has no ancestors")
        left = list(ancestors)
        connecting: dict[asyncio.Task[Channel], int] = {}
        try:
            while left or connecting:
                if left:
                    node = left.pop(0)
                    work = connect(self._address(node), self._place.credentials)
                    connecting[asyncio.create_task(work)] = node
                done, _ = await asyncio.wait(
                    (*connecting, self._called),
                    timeout=patience_s if left else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if self._called in done:
                    return await self._take_call()
                for task in [each for each in connecting if each in done]:
                    node = connecting.pop(task)
                    try:
                        return task.result()
                    except LinkError as error:
                        LOG.warning("node %d: %s", node, error)
                        problem = error
        finally:
            for task in connecting:
                task.cancel()
                task.add_done_callback(close_unused)
        raise problem

    async def _take_call(self) -> Channel:
        channel = await asyncio.shield(self._called)
        self._called = self._loop.create_future()
        return channel

    def _address(self, node: int) -> str:
        return self._place.front_end if node == FRONT_END else self._addresses[node]

    def _hello(self, *, wants_table: bool = False) -> Hello:
        below = {node for nodes in self._nodes_below.values() for node in nodes}
        return Hello(
            version=PROTOCOL_VERSION,
            release=release(),
            node=self.number,
            host=self.host,
            names=own_names(),
            pid=os.getpid(),
            address=self._place.own_address,
            wants_table=wants_table,
            generation=self._generation,
            joins=self._joins,
            below=tuple(self._hellos[node] for node in sorted(below)),
            is_set_up=self._is_asked,
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
        self._take_table(message)

    async def _serve_parent(self, channel: Channel) -> None:
        self._joins += 1
        channel.send(self._hello())
        self._parent = channel
        if self._setup is not None:
            # No old event is sent again: the current state of the ranks counts.
            self._announce()
        unsent, self._unsent = self._unsent, []
        for reply in unsent:
            channel.send(reply)
        if self.delivery is not None:
            self.delivery.new_parent()
        while True:
            message = await channel.receive()
            match message:
                case Request():
                    self.start_request(message)
                case Find():
                    self._find(message)
                case Announce():
                    self._announce()
                case Setup():
                    self._take_setup(message)
                case WantFiles() | FilesAre() | WantPart() | FilePart():
                    if self.delivery is not None:
                        self.delivery.from_above(message)
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
        # The aggregators below were lost with us to those above, and have noticed nothing.
        self.down(Announce(nodes=(), classes=()))

    def _find(self, find: Find) -> None:
        self.down(find)
        self._finding = asyncio.create_task(self._answer_find(find))

    async def _answer_find(self, find: Find) -> None:
        if find.cores is not None:
            cores = await self._core_searcher.search(find.cores, self.number)
            self.up(Found(node=self.number, cores=cores))
            return
        self.up(Found(node=self.number, jobs=await self._leaf.find(find, self.number)))

    def _take_setup(self, setup: Setup) -> None:
        # The part for all is kept; the shares have the ranks of each.
        self._setup = replace(setup, shares=())
        self.apply_setup(setup)
        share = self.shares.get(self.number)
        if share is None:
            return
        before, self._ranks = self._ranks, share.ranks
        if not before:
            self._leaf.setup(setup, share, self.delivery)
        elif not self._ranks <= before:
            self._leaf.add(setup, share)

    # -- the leaf ----------------------------------------------------------------------------

    def ask_own(self, request: Request, ranks: RankSet) -> None:
        """Let this aggregator's debuggers answer."""
        self._is_asked = True
        self._leaf.ask(request, ranks)

    def _answered(self, request_id: int, said: EquivalenceClass[Record]) -> None:
        for gathered in self.router.add_answer(request_id, said):
            self.answered(gathered)

    def _not_answering(self, request_id: int, missing: Missing) -> None:
        for gathered in self.router.add_missing(request_id, missing):
            self.answered(gathered)
