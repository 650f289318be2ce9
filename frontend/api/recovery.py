"""Bring back what ranks have lost: the aggregator they are debugged from, and breakpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.breakpoint_journal import BreakpointLog
from pgdb.frontend.startup.overlay import Overlay
from pgdb.overlay.messages import AnyOperation, Share
from pgdb.proctable import ProcTable
from pgdb.ranks import RankSet
from pgdb.records import Failure


class Asks(Protocol):
    """What asks ranks, as :meth:`Session.ask` does."""

    async def __call__(self, command: str, operation: AnyOperation, ranks: RankSet) -> Answer:
        """Ask *ranks*."""
        ...


class Reviver:
    """Knows what the ranks of a session have had, and gives it to those that come back."""

    def __init__(self, overlay: Overlay, *, ask: Asks, note: Callable[[str], None]) -> None:
        self._overlay = overlay
        self._ask = ask
        self._note = note
        self.breakpoints = BreakpointLog()
        self._reviving = asyncio.Lock()

    async def revive_aggregators(self, ranks: RankSet, table: ProcTable) -> None:
        """Have the lost aggregators that *ranks* were debugged from in the tree again.

        Those that are new know of their ranks then, and so do those that were cut off before they
        had been told; they have not taken hold of any. The user is told which ranks' aggregator
        cannot be had, and why. What is under way already, for a command that has not waited for it,
        is waited for: two in one place are one too many.
        """
        async with self._reviving:
            await self._revive(ranks, table)

    async def _revive(self, ranks: RankSet, table: ProcTable) -> None:
        root = self._overlay.root
        lost = {node: its for node, its in root.out_of_reach.items() if not its.isdisjoint(ranks)}
        bare = root.bare & root.shares.keys()
        if not (lost or bare) or root.setup is None:
            return
        reasons = await self._overlay.revive(lost) if lost else {}
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
        for node, why in reasons.items():
            whose = lost[node] & ranks
            self._note(f"[{whose}] their aggregator cannot be started again: {why}")

    async def set_breakpoints(self, ranks: RankSet) -> None:
        """Give *ranks*, which have new debuggers, the session's breakpoints.

        The user is told of those that cannot be set again.
        """
        for each in self.breakpoints.of(ranks):
            again = await self._ask(each.line, each.operation, each.ranks)
            for failed in again.errors:
                assert isinstance(failed.filled, Failure)
                why = failed.filled.message
                self._note(f"[{failed.ranks}] '{each.line}' cannot be carried out again: {why}")
