"""The transport over the overlay: aggregators on the hosts of a running job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from pgdb.errors import NO_JOB
from pgdb.frontend.transport import deliveries, losses
from pgdb.frontend.transport.overlay_root import Root
from pgdb.frontend.transport.transport import Events, Receiver
from pgdb.overlay.messages import Delivered, Hello, Lost, Notice, Share
from pgdb.overlay.router import Gathered
from pgdb.proctable import ProcTable, RankProcess
from pgdb.ranks import RankSet

LOG = logging.getLogger(__name__)


class Aggregators(Protocol):
    """The aggregators of one session; see :class:`pgdb.frontend.startup.overlay.Overlay`."""

    root: Root
    failed: dict[str, str]
    """Hosts without aggregators, and the reasons."""

    @property
    def nodes(self) -> dict[int, Hello]:
        """The aggregators that are in the tree."""
        ...

    @property
    def launcher_pid(self) -> int:
        """Process id of the aggregators' launcher, 0 if there is none here."""
        ...

    async def recover(self, nodes: Collection[int]) -> dict[int, str]:
        """Bring lost aggregators back into the tree; return the reasons of those that stay away."""
        ...

    async def close(self) -> None:
        """End all aggregators."""
        ...


class Calls:
    """The callbacks of an overlay, which it needs before there is a session to receive them."""

    def __init__(self) -> None:
        self.receiver: Receiver | None = None

    def events(self, classes: Events) -> None:
        """Pass events on."""
        if self.receiver is not None:
            self.receiver.on_events(classes)

    def announced(self, classes: Events) -> None:
        """Pass the current states of ranks on."""
        if self.receiver is not None:
            self.receiver.on_events(classes, are_announced=True)

    def late(self, gathered: Gathered) -> None:
        """Pass answers on that nobody waits for."""
        if self.receiver is not None:
            self.receiver.on_late(gathered)

    def lost(self, lost: Lost) -> None:
        """Pass a loss on."""
        if self.receiver is not None:
            self.receiver.on_lost(lost)

    def notice(self, notice: Notice) -> None:
        """Pass a notice on."""
        if self.receiver is not None:
            self.receiver.on_notice(notice)

    def progress(self, got: int, wanted: int) -> None:
        """Pass the number of aggregators on."""
        if self.receiver is not None:
            self.receiver.on_progress(f"aggregators {got}/{wanted}")


class OverlayTransport:
    """The overlay, as a session sees it."""

    is_recorded = False
    when_closed = NO_JOB

    def __init__(self, make_overlay: Callable[[Calls], Aggregators]) -> None:
        self._calls = Calls()
        self.overlay = make_overlay(self._calls)
        self._root = self.overlay.root
        self._root.on_delivered = self._delivered
        # The method of the root itself: no layer only passes a request on.
        self.ask = self._root.ask
        self.next_id = self._root.next_id
        self.ask_states = self._root.ask_states
        self._restoring = asyncio.Lock()

    def subscribe(self, receiver: Receiver) -> None:
        """Call *receiver* from now on."""
        self._calls.receiver = receiver
        self._root.on_bare = receiver.on_unacquired

    @property
    def out_of_reach(self) -> RankSet:
        """Ranks whose aggregator is not in the tree."""
        return RankSet.union(self._root.out_of_reach.values())

    @property
    def unacquired(self) -> RankSet:
        """Ranks of aggregators that were cut off before they had got their setup."""
        root = self._root
        return RankSet.union(root.shares[node].ranks for node in root.bare & root.shares.keys())

    async def restore(self, ranks: RankSet, table: ProcTable) -> tuple[tuple[RankSet, str], ...]:
        """Bring the lost aggregators of *ranks* back into the tree, and send them their ranks.

        They have not attached to any rank afterwards. A call waits for an earlier one to end: two
        aggregators in one place are one too many.
        """
        async with self._restoring:
            return await self._restore(ranks, table)

    async def _restore(self, ranks: RankSet, table: ProcTable) -> tuple[tuple[RankSet, str], ...]:
        root = self._root
        lost = {node: its for node, its in root.out_of_reach.items() if not its.isdisjoint(ranks)}
        bare = root.bare & root.shares.keys()
        if not (lost or bare) or root.setup is None:
            return ()
        reasons = await self.overlay.recover(lost) if lost else {}
        pids = {each.rank: each.pid for each in table.processes}
        new = lost.keys() | bare
        below = {each for node in new for each in root.topology.subtree(node)}
        shares = tuple(
            Share.of(node, share.ranks, [pids[rank] for rank in share.ranks])
            if node in new
            else share
            for node, share in root.shares.items()
            if node in below and node not in reasons
        )
        root.apply_setup(replace(root.setup, is_held=False, shares=shares))
        return tuple(
            (lost[node] & ranks, f"their aggregator cannot be started again: {why}")
            for node, why in reasons.items()
        )

    def add(
        self, parts: Mapping[int, Sequence[RankProcess]], table: ProcTable, *, is_held: bool
    ) -> None:
        """Assign further ranks to aggregators that are in the tree.

        :param parts: the new ranks of each aggregator.
        :param table: all ranks of the session, without the new ones.
        :param is_held: whether the new ranks wait in the hold program.
        """
        root = self._root
        assert root.setup is not None
        pids = {each.rank: each.pid for each in table.processes}
        shares = []
        for node, new in parts.items():
            own = root.shares[node].ranks if node in root.shares else RankSet()
            its = {rank: pids.get(rank, 0) for rank in own} | {each.rank: each.pid for each in new}
            shares.append(Share.of(node, RankSet(its), [its[rank] for rank in sorted(its)]))
        root.apply_setup(replace(root.setup, is_held=is_held, shares=tuple(shares)))

    def describe_loss(self, lost: Lost, ranks: RankSet) -> tuple[tuple[RankSet, str], ...]:
        """Return *ranks*, for which a loss is news, in parts, each with its message."""
        root = self._root
        return losses.describe(
            lost, ranks, topology=root.topology, shares=root.shares, known=root.known
        )

    @property
    def aggregators(self) -> int:
        """Number of aggregators in the tree."""
        return len(self.overlay.nodes)

    @property
    def deliveries(self) -> tuple[Delivered, ...]:
        """The work of each node for the ranks' files; empty without ``--sbd``."""
        return self._root.deliveries

    async def close(self) -> None:
        """Release all ranks and end all aggregators."""
        await self.overlay.close()
        if (delivery := self._root.delivery) is not None:
            LOG.info("%s", deliveries.report(self._root.deliveries))
            await delivery.close()

    def _delivered(self) -> None:
        if self._calls.receiver is not None:
            self._calls.receiver.on_progress(deliveries.progress(self._root.deliveries))
