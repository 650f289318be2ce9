"""The common part of all nodes of the tree, the front end included: children, requests, events.

A node forwards requests, gathers replies, merges events over a short window, and reports nodes that
join or are lost. The derived class (an aggregator, or the front end's root) adds the link to the
parent and the node's own ranks.
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
from pgdb.merge.classes import EquivalenceClass
from pgdb.overlay.channel import Channel
from pgdb.overlay.event_buffer import EventBuffer
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
"""Size in bytes from which messages are processed one in each round of the loop."""
LONG_BYTES = 1 << 18
"""Size in bytes from which a thread inflates a reply: it may stand for a hundred times as many."""
NOTICE_WINDOW_S = 0.2
"""Seconds in which equal notices of several hosts become one."""
MOST_NOTICES = 100
"""Most different notices that are forwarded; a fault that recurs in other words is for the log."""


def release() -> str:
    """Return the versions that must agree on all hosts, in words."""
    return f"PGDB {__version__} on Python {sys.version_info.major}.{sys.version_info.minor}"


MOST_CLASSES_TOGETHER = 1024
"""Most classes of events that are joined to one message.

The text that a rank prints at a stop has to come with the stop: a command that waits for the stop
ends then.
"""


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
        self._notices: dict[str, dict[str, None]] = {}  # text -> all hosts so far
        self._new_notices: dict[str, dict[str, None]] = {}
        self._notice_timer: asyncio.TimerHandle | None = None
        self._is_set_up = False
        self.delivery: Delivery | None = None
        """Deliverer of files to the ranks' hosts; None if every GDB reads the files by itself."""
        self.event_window_s = 0.02
        """Time for which events are collected before they are sent up; the set-up changes it."""
        self._event_timer: asyncio.TimerHandle | None = None
        self._going = RankSet()  # resumed through this node, without an event since
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._turn = asyncio.Lock()  # of a large reply that is being processed
        self._replying: asyncio.Task[None] | None = None  # sends up the last of the large ones
        self._loop = asyncio.get_running_loop()

    # -- what the derived class adds ---------------------------------------------------------

    def answered(self, gathered: Gathered) -> None:
        """Send gathered answers up, after pending notices and what ranks have printed before."""
        self.flush_before(gathered)
        if self._events.has_output:
            self.flush_events()
        if not gathered.is_large and self._replying is None:
            self.up(gathered.reply())
        else:
            self._replying = self._loop.create_task(self._reply(gathered, self._replying))

    def flush_before(self, gathered: Gathered) -> None:
        """Send up pending notices, and the stops at which the answers have failed.

        A command can fail because its rank has stopped, as a call at a breakpoint does.
        """
        self.flush_notices()
        if self._events and gathered.may_have_failures:
            self.flush_events()

    async def _reply(self, gathered: Gathered, before: asyncio.Task[None] | None) -> None:
        """Make a large reply in a thread, and send it up after the one *before* it.

        Nothing else uses the gathered answers any longer. A small reply waits for its turn too: it
        may be the rest of the same answer.
        """
        if before is not None:
            await asyncio.wait((before,))
        reply = await make(gathered.reply) if gathered.is_large else gathered.reply()
        self.up(reply)
        if self._replying is asyncio.current_task():
            self._replying = None

    @abstractmethod
    def up(self, message: AnyMessage) -> None:
        """Send or process a message for the front end."""

    @abstractmethod
    def ask_own(self, request: Request, ranks: RankSet) -> None:
        """Let this node's own *ranks* answer *request*."""

    def accept_hello(self, hello: Hello, channel: Channel) -> bool:
        """Return whether a node becomes a child; the method answers a node that does not."""
        return True

    def forget_hello(self, hello: Hello) -> None:
        """Note that a node which was not accepted has closed its link."""
        LOG.debug("node %d has left again", hello.node)

    def place(self, number: int, topology: Topology) -> None:
        """Move to another place in the tree, before there are children."""
        self.number = number
        self.topology = topology
        self.router = Router(height=topology.levels_below(number))

    # -- children ----------------------------------------------------------------------------

    async def serve_child(self, channel: Channel, first: AnyMessage | None = None) -> None:
        """Serve one link to a child until it ends; *first* is a message that was read before."""
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
                    await channel.receive()  # the peer closes the link after the answer
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
                    # One large message in a round of the loop, whatever else has arrived. The
                    # others wait in their encoded form, which takes less room.
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
        """Adopt the assignment of ranks to nodes, and send it to the children.

        A later setup is for nodes that replace lost ones.
        """
        is_first, self._is_set_up = not self._is_set_up, True
        self.shares.update({share.node: share for share in setup.shares})
        self.event_window_s = setup.event_window_s
        own = self.shares.get(self.number)
        self.router.own = own.ranks if own is not None else RankSet()
        for child in self._channels:
            self.router.set_child(child, self._ranks_of(self._nodes_below[child]))
        if setup.deploy is not None and self.delivery is None:
            self.delivery = self._make_delivery(setup.deploy)
        # Each child gets only the shares of its subtree, which reaches them through this node
        # alone; the shares of a million ranks are megabytes.
        for child, channel in self._channels.items():
            nodes = {*self.topology.subtree(child), *self._nodes_below[child]}
            below = tuple(share for share in setup.shares if share.node in nodes)
            if is_first or below:
                channel.send(replace(setup, shares=below))
        if len(self.router.ranks) >= LARGE_RANKS:
            limit_heaps()
            # Large replies are packed with NumPy; it is loaded before the first of them.
            self._loop.run_in_executor(None, importlib.import_module, "numpy")
        # The process ids of other nodes are not needed any longer.
        self.shares = {
            node: share if node == self.number else replace(share, packed_pids=b"")
            for node, share in self.shares.items()
        }

    def _make_delivery(self, deploy: Deploy) -> Delivery:
        # Only sessions with --sbd load these modules.
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
        """React to progress in delivering files, here or below."""
        LOG.debug("node %d: files have come along", self.number)

    def _is_replaced(self, hello: Hello) -> bool:
        """Return whether another node has replaced a lost one that reconnects."""
        known = self._known(hello.node)
        return known is not None and known.generation > hello.generation

    def _has_moved_on(self, hello: Hello) -> bool:
        """Return whether the node has had another parent since: this link was cut as it began."""
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
        """Record the nodes that are reached through a child, and report them up.

        A child's knowledge of nodes further below may be out of date: some have noticed earlier
        that their host was cut off, and have another parent by now, with all nodes below them.
        """
        there = self._nodes_below[child]
        new: dict[int, bytes] = {}
        # The sender lists parents first.
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
        # A request on the old way may not have reached them. If it has, they answer.
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
        self.flush_events()  # of before the loss
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
                # Orphans can be back through another child before the report of their loss arrives.
                back = set().union(*self._nodes_below.values()) & set(nodes)
                if back and back == set(nodes):
                    return
                lost = ranks - self.router.ranks
                for gathered in self.router.lose_ranks(lost):
                    self.answered(gathered)
                left = tuple(node for node in nodes if node not in back)
                self.flush_events()  # of before the loss
                self.up(Lost(nodes=left, ranks=lost, why=message.why))
            case Notice(text=text, hosts=hosts):
                self.add_notice(text, hosts)
            case Heartbeat():
                pass
            case Announce() | Found():
                self.flush_events()  # of before the announced states
                self.up(message)
            case WantFiles() | FilesAre() | WantPart() | FilePart() | Deliveries():
                if self.delivery is not None:
                    self.delivery.from_child(child, message)
            case _:
                raise ProtocolError(f"a child sent {type(message).__name__}")

    # -- requests and events -----------------------------------------------------------------

    def start_request(self, request: Request) -> None:
        """Forward a request to the children and to this node's own ranks."""
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
        """Record an event of this node's own ranks or of a child's."""
        self._events.add(ranks, record, slots)
        window_s = self.event_window_s
        if self._going and isinstance(record, Stop | Exit | Gone):
            self._going = self._going - ranks
            if not self._going and self._event_timer is not None:
                # This was the last rank with a possible event, so waiting for the window gains
                # nothing.
                self._event_timer.cancel()
                self._event_timer = None
            window_s = window_s if self._going else 0.0
        elif isinstance(record, Running):
            self._going = self._going | ranks
        if self._event_timer is None:
            self._event_timer = self._loop.call_later(window_s, self.flush_events)

    def flush_events(self) -> None:
        """Send the collected events up."""
        if self._event_timer is not None:
            self._event_timer.cancel()
            self._event_timer = None
        together: list[EquivalenceClass[Event]] = []
        for classes in self._events.take():
            if together and len(together) + len(classes) > MOST_CLASSES_TOGETHER:
                self.up(Events(classes=tuple(together)))
                together.clear()
            together.extend(classes)
        if together:
            self.up(Events(classes=tuple(together)))

    def add_notice(self, text: str, hosts: Sequence[str] = ()) -> None:
        """Notify the user of *text*, once for each of *hosts* (default: this one)."""
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
        """Send the collected notices up."""
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
