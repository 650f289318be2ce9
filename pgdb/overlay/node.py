"""What every node of the tree does, the front end included: children, requests, events.

A node hands requests on, gathers replies, merges events over a short window and passes on who
came and who was lost. What is above it and what its own ranks are is left to the class that
derives from it: an aggregator, or the front end's root.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.errors import LinkError, ProtocolError
from pgdb.merge.classes import EquivalenceClass, Merger
from pgdb.overlay.channel import Channel
from pgdb.overlay.executor import make
from pgdb.overlay.messages import (
    FRONT_END,
    PROTOCOL_VERSION,
    Announce,
    AnyMessage,
    Deliveries,
    Deploy,
    Events,
    FilePart,
    FilesAre,
    Found,
    Heartbeat,
    Hello,
    Joined,
    Lost,
    Notice,
    Reply,
    Request,
    Setup,
    Share,
    Shutdown,
    WantFiles,
    WantPart,
)
from pgdb.overlay.own_process import limit_heaps
from pgdb.overlay.router import LARGE_RANKS, Gathered, Router
from pgdb.overlay.topology import Topology
from pgdb.ranks import RankSet
from pgdb.records import Event, Exit, Gone, Running, Stop
from pgdb.version import __version__

if TYPE_CHECKING:
    from pgdb.files.delivery import Delivery

LOG = logging.getLogger(__name__)

LARGE_BYTES = 1 << 10
"""Messages as long as this are dealt with one at a time."""
LONG_BYTES = 1 << 18
"""A reply of so many bytes is inflated in a thread: it may stand for a hundred times as many."""
NOTICE_WINDOW_S = 0.2
"""Equal notices of several hosts that come within it become one."""
MOST_NOTICES = 100
"""More different ones are not handed on: what goes wrong anew each time is for the log."""


def release() -> str:
    """Return the versions that must agree on all hosts, in words."""
    return f"PGDB {__version__} on Python {sys.version_info.major}.{sys.version_info.minor}"


class EventBuffer:
    """Merges events that come close together; keeps the order of each rank's events."""

    def __init__(self) -> None:
        self._batches: list[Merger[Event]] = []

    def add(self, ranks: RankSet, record: Event, slots: tuple[str, ...]) -> None:
        """Add what *ranks* have told; it comes after all that they told before."""
        # A rank's event goes into the batch behind the last one it has an event in.
        for number in range(len(self._batches) - 1, -1, -1):
            if not self._batches[number].ranks.isdisjoint(ranks):
                at = number + 1
                break
        else:
            at = 0
        if at == len(self._batches):
            self._batches.append(Merger())
        self._batches[at].add(ranks, record, slots)

    def take(self) -> list[tuple[EquivalenceClass[Event], ...]]:
        """Return the batches so far, oldest first, and forget them."""
        batches, self._batches = self._batches, []
        return [batch.classes for batch in batches]

    def __bool__(self) -> bool:
        return bool(self._batches)


class TreeNode(ABC):
    """One node of the overlay, on asyncio."""

    def __init__(self, number: int, topology: Topology) -> None:
        self.number = number
        self.topology = topology
        self.host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        self.router = Router(height=topology.levels_below(number))
        self.shares: dict[int, Share] = {}
        self._channels: dict[int, Channel] = {}
        self._nodes_below: dict[int, set[int]] = {}
        self._hellos: dict[int, bytes] = {}  # of all nodes below, packed
        self._events = EventBuffer()
        self._notices: dict[str, dict[str, None]] = {}  # text -> hosts, all that there were
        self._new_notices: dict[str, dict[str, None]] = {}
        self._notice_timer: asyncio.TimerHandle | None = None
        self._is_set_up = False
        self.delivery: Delivery | None = None
        """Hands the ranks' files on; None where every GDB reads them by itself."""
        self._event_window_s = 0.02
        self._event_timer: asyncio.TimerHandle | None = None
        self._going = RankSet()  # set running through here, and not heard of since
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()  # of a large reply that is dealt with
        self._replying: asyncio.Task[None] | None = None  # the last of the large ones, going up
        self._loop = asyncio.get_running_loop()

    # -- what the derived class adds ---------------------------------------------------------

    def answered(self, gathered: Gathered) -> None:
        """Take what has come back for a request; it goes up, behind what there is to be noted."""
        self.flush_notices()
        if not gathered.is_large and self._replying is None:
            self.up(gathered.reply())
        else:
            self._replying = self._loop.create_task(self._reply(gathered, self._replying))

    async def _reply(self, gathered: Gathered, before: asyncio.Task[None] | None) -> None:
        """Make a large reply in a thread, and send it up behind the one *before* it.

        Nobody else has a part in what was gathered any more. A small one waits for its turn, too:
        it may be the rest of the same answer.
        """
        if before is not None:
            await asyncio.wait((before,))
        reply = await make(gathered.reply) if gathered.is_large else gathered.reply()
        self.up(reply)
        if self._replying is asyncio.current_task():
            self._replying = None

    @abstractmethod
    def up(self, message: AnyMessage) -> None:
        """Take a message on its way to the front end."""

    @abstractmethod
    def ask_own(self, request: Request, ranks: RankSet) -> None:
        """Have this node's own *ranks* answer *request*."""

    def accept_hello(self, hello: Hello, channel: Channel) -> bool:
        """Decide whether a node becomes a child; one that does not is answered by us."""
        return True

    def forget_hello(self, hello: Hello) -> None:
        """Take that a node which was not accepted has closed its link."""
        LOG.debug("node %d has left again", hello.node)

    def place(self, number: int, topology: Topology) -> None:
        """Take another place in the tree, before there are children."""
        self.number = number
        self.topology = topology
        self.router = Router(height=topology.levels_below(number))

    # -- children ----------------------------------------------------------------------------

    async def serve_child(self, channel: Channel, first: AnyMessage | None = None) -> None:
        """Run one link to a child, until it ends; *first* if its first message was read."""
        node: int | None = None
        why = "it closed the link"
        try:
            hello = first if first is not None else await channel.receive()
            if not isinstance(hello, Hello):
                raise ProtocolError(f"{channel.peer} began with {type(hello).__name__}")
            if hello.version != PROTOCOL_VERSION or hello.release != release():
                self.up(
                    Lost(
                        nodes=(hello.node,),
                        ranks=RankSet(),
                        why=f"host {hello.host} runs {hello.release}, here is {release()}; "
                        "install the same PGDB and Python on all hosts",
                    )
                )
                return
            if not self.accept_hello(hello, channel):
                try:
                    await channel.receive()  # it closes the link when it has what it wants
                finally:
                    self.forget_hello(hello)
                return
            if self._is_replaced(hello):
                channel.send(Shutdown())
                return
            if self._has_moved_on(hello):
                return
            node = hello.node
            self._add_child(hello, channel)
            while True:
                data = await channel.receive_packed()
                if len(data) >= LARGE_BYTES or self._is_large(node):
                    # One in a round of the loop, whatever else has come with it; the others wait as
                    # they came, which takes less room.
                    async with self._turn:
                        message = channel.unpack(data)
                        if len(data) >= LONG_BYTES and isinstance(message, Reply):
                            graph = await make(message.graph.inflate)
                            message = replace(message, graph=graph)
                        self._take(channel, node, message)
                        del data, message
                        await asyncio.sleep(0)
                else:
                    self._take(channel, node, channel.unpack(data))
        except (LinkError, ProtocolError) as error:
            why = str(error)
        finally:
            channel.close()
            if node is not None and self._channels.get(node) is channel:
                self._lose_child(node, why)

    def _take(self, channel: Channel, child: int, message: AnyMessage) -> None:
        if self._channels.get(child) is not channel:
            raise LinkError("the child has opened another link since")
        self._handle(child, message)

    def _is_large(self, child: int) -> bool:
        return len(self.router.child_ranks(child)) >= LARGE_RANKS

    def down(self, message: AnyMessage) -> None:
        """Send a message to all children."""
        for channel in self._channels.values():
            channel.send(message)

    def apply_setup(self, setup: Setup) -> None:
        """Learn who debugs which ranks, and tell the children.

        What comes later is for nodes that have taken the place of lost ones.
        """
        is_first, self._is_set_up = not self._is_set_up, True
        self.shares.update({share.node: share for share in setup.shares})
        self._event_window_s = setup.event_window_s
        own = self.shares.get(self.number)
        self.router.own = own.ranks if own is not None else RankSet()
        for child in self._channels:
            self.router.set_child(child, self._ranks_of(self._nodes_below[child]))
        if setup.deploy is not None and self.delivery is None:
            self.delivery = self._make_delivery(setup.deploy)
        # Each child hears of those below it alone: it is their only way to here, and what a million
        # ranks are is megabytes.
        for child, channel in self._channels.items():
            nodes = {*self.topology.subtree(child), *self._nodes_below[child]}
            below = tuple(share for share in setup.shares if share.node in nodes)
            if is_first or below:
                channel.send(replace(setup, shares=below))
        if len(self.router.ranks) >= LARGE_RANKS:
            limit_heaps()
            # What large replies are packed with, before the first of them needs it.
            self._loop.run_in_executor(None, importlib.import_module, "numpy")
        # Of the others nobody asks for the processes again.
        self.shares = {
            node: share if node == self.number else replace(share, packed_pids=b"")
            for node, share in self.shares.items()
        }

    def _make_delivery(self, deploy: Deploy) -> Delivery:
        # Only for those who ask for it.
        from pgdb.files.delivery import Delivery
        from pgdb.files.file_cache import FileCache, default_directory

        def send_down(child: int, message: AnyMessage) -> None:
            if child in self._channels:
                self._channels[child].send(message)

        return Delivery(
            self.number,
            self.host,
            open_cache=lambda: FileCache(
                (deploy.cache or default_directory()).replace("%h", self.host),
                max_bytes=deploy.max_bytes,
                max_age_s=deploy.max_age_s,
            ),
            up=self.up if self.number != FRONT_END else None,
            down=send_down,
            notice=self.add_notice,
            on_report=self.delivered,
        )

    def delivered(self) -> None:
        """Take that files have come along, here or below."""
        LOG.debug("node %d: files have come along", self.number)

    def _is_replaced(self, hello: Hello) -> bool:
        """Return whether another one has taken the place of a node that was lost and comes back."""
        known = self._known(hello.node)
        return known is not None and known.generation > hello.generation

    def _has_moved_on(self, hello: Hello) -> bool:
        """Return whether the node has had another parent since: a link was cut as it began."""
        known = self._known(hello.node)
        return (
            known is not None and known.generation == hello.generation and known.joins > hello.joins
        )

    def _add_child(self, hello: Hello, channel: Channel) -> None:
        self._channels[hello.node] = channel
        self._nodes_below[hello.node] = set()
        self.router.set_child(hello.node, RankSet())
        own = replace(hello, parent=self.number)
        self._take_joined(hello.node, (own.pack(), *hello.below))

    def _take_joined(self, child: int, packed: Sequence[bytes]) -> None:
        """Take which nodes are reached through a child, and tell above.

        What a child says of nodes further below may be out of date: some have noticed sooner that
        their host was cut off, and hang elsewhere by now, with all that is below them.
        """
        there = self._nodes_below[child]
        new: dict[int, bytes] = {}
        # Parents come first, by whoever hands it on.
        for data in packed:
            hello = Hello.unpack(data)
            known = self._known(hello.node)
            is_old = known is not None and (
                (known.generation, known.joins) > (hello.generation, hello.joins)
            )
            if is_old or (hello.node != child and hello.parent not in there):
                continue
            there.add(hello.node)
            new[hello.node] = data
        if not new:
            return
        self._hellos.update(new)
        moved: set[int] = set()
        for other, below in self._nodes_below.items():
            if other != child:
                moved |= below & new.keys()
                below.difference_update(new)
        self.router.set_child(child, self.router.child_ranks(child) | self._ranks_of(new))
        # What they were asked on their old way may not have reached them. If it has, they answer.
        for gathered in self.router.lose_ranks(self._ranks_of(moved)):
            self.answered(gathered)
        self.up(Joined(nodes=tuple(new.values())))

    def _known(self, node: int) -> Hello | None:
        data = self._hellos.get(node)
        return Hello.unpack(data) if data is not None else None

    def _ranks_of(self, nodes: Iterable[int]) -> RankSet:
        return RankSet.union(self.shares[node].ranks for node in nodes if node in self.shares)

    def _lose_child(self, node: int, why: str) -> None:
        del self._channels[node]
        nodes = self._nodes_below.pop(node)
        if self.delivery is not None:
            self.delivery.lose_child(node)
        ranks, replies = self.router.lose(node)
        for gathered in replies:
            self.answered(gathered)
        self.up(Lost(nodes=tuple(sorted(nodes)), ranks=ranks, why=why))

    def _handle(self, child: int, message: AnyMessage) -> None:
        match message:
            case Reply():
                for gathered in self.router.add_reply(message):
                    self.answered(gathered)
                self._set_deadline()
            case Events(classes=classes):
                for each in classes:
                    self.add_event(each.ranks, each.record, each.slots)
            case Joined(nodes=nodes):
                self._take_joined(child, nodes)
            case Lost(nodes=nodes, ranks=ranks):
                gone = self._nodes_below[child] & set(nodes)
                self._nodes_below[child] -= gone
                self.router.set_child(child, self.router.child_ranks(child) - self._ranks_of(gone))
                # Orphans can be back through another child before the word of their loss comes.
                back = set().union(*self._nodes_below.values()) & set(nodes)
                if back and back == set(nodes):
                    return
                lost = ranks - self.router.ranks
                for gathered in self.router.lose_ranks(lost):
                    self.answered(gathered)
                left = tuple(node for node in nodes if node not in back)
                self.up(Lost(nodes=left, ranks=lost, why=message.why))
            case Notice(text=text, hosts=hosts):
                self.add_notice(text, hosts)
            case Heartbeat():
                pass
            case Announce() | Found():
                self.up(message)
            case WantFiles() | FilesAre() | WantPart() | FilePart() | Deliveries():
                if self.delivery is not None:
                    self.delivery.from_child(child, message)
            case _:
                raise ProtocolError(f"a child sent {type(message).__name__}")

    # -- requests and events -----------------------------------------------------------------

    def start_request(self, request: Request) -> None:
        """Hand a request on to the children and to this node's own ranks."""
        onward, own = self.router.start(request, self._loop.time())
        if request.operation.sets_running:
            self._going = (self._going | request.ranks) & self.router.ranks
        for child, part in onward.items():
            self._channels[child].send(part)
        if own:
            self.ask_own(request, own)
        for gathered in self.router.lose_ranks(RankSet()):
            self.answered(gathered)
        self._set_deadline()

    def add_event(self, ranks: RankSet, record: Event, slots: tuple[str, ...]) -> None:
        """Take an event of this node's own ranks or of a child's."""
        self._events.add(ranks, record, slots)
        window_s = self._event_window_s
        if self._going and isinstance(record, Stop | Exit | Gone):
            self._going = self._going - ranks
            if not self._going and self._event_timer is not None:
                # The last one that could have more to tell: nobody else is worth waiting for.
                self._event_timer.cancel()
                self._event_timer = None
            window_s = window_s if self._going else 0.0
        elif isinstance(record, Running):
            self._going = self._going | ranks
        if self._event_timer is None:
            self._event_timer = self._loop.call_later(window_s, self.flush_events)

    def flush_events(self) -> None:
        """Send the events that have been collected up."""
        if self._event_timer is not None:
            self._event_timer.cancel()
            self._event_timer = None
        for classes in self._events.take():
            self.up(Events(classes=classes))

    def add_notice(self, text: str, hosts: Sequence[str] = ()) -> None:
        """Tell the user *text*, once for each of *hosts*; without any, of this one."""
        if text not in self._notices and len(self._notices) >= MOST_NOTICES:
            return
        known = self._notices.setdefault(text, {})
        new = [host for host in hosts or (self.host,) if host not in known]
        known.update(dict.fromkeys(new))
        if new:
            self._new_notices.setdefault(text, {}).update(dict.fromkeys(new))
            if self._notice_timer is None:
                self._notice_timer = self._loop.call_later(NOTICE_WINDOW_S, self.flush_notices)

    def flush_notices(self) -> None:
        """Send the notices that have been collected up."""
        if self._notice_timer is not None:
            self._notice_timer.cancel()
            self._notice_timer = None
        notices, self._new_notices = self._new_notices, {}
        for text, hosts in notices.items():
            self.up(Notice(text=text, hosts=tuple(hosts)))

    def _set_deadline(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None
        due = self.router.next_deadline_s()
        if due is not None:
            self._deadline_timer = self._loop.call_at(due, self._expire)

    def _expire(self) -> None:
        self._deadline_timer = None
        for gathered in self.router.expire(self._loop.time()):
            self.answered(gathered)
        self._set_deadline()
