"""Aggregators after the start: lost ones are called or replaced, and further hosts get some."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pgdb.errors import PgdbError
from pgdb.frontend.startup import places
from pgdb.frontend.startup.site import Starter
from pgdb.overlay import addresses

if TYPE_CHECKING:
    from pgdb.frontend.startup.overlay import Overlay

HUNG_TIMEOUT_S = 1.0
"""Time for a lost aggregator of this host to leave, before another one gets its place."""
START_TIMEOUT_S = 40.0
"""Longest time for a new aggregator to join the tree."""
COME_BACK_S = 10.0
"""Time for an aggregator that answers to join the tree again."""
MOST_STARTED = 64
"""Number of launchers for new aggregators at a time."""


class AggregatorRecovery:
    """One recovery of lost aggregators."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    async def recover(self, nodes: Collection[int]) -> dict[int, str]:
        """Bring lost aggregators back into the tree; see :meth:`Overlay.recover`."""
        await self._call_back(nodes)
        starting = asyncio.Semaphore(MOST_STARTED)

        async def recover(node: int) -> str:
            async with starting:
                return await self._recover(node)

        reasons: dict[int, str] = {}
        levels: dict[int, list[int]] = {}
        for node in sorted(nodes):
            levels.setdefault(len(self._overlay.root.topology.ancestors(node)), []).append(node)
        # From above, so that most find the parent that they had.
        for _, level in sorted(levels.items()):
            reasons |= zip(level, await asyncio.gather(*map(recover, level)), strict=True)
        if self._overlay.site is not None:
            await self._overlay.site.settle()
        return {node: why for node, why in reasons.items() if why}

    async def add_hosts(self, hosts: Sequence[str]) -> dict[str, str]:
        """Start aggregators on further hosts; return the reason for each host without one.

        A place whose aggregator does not come stays empty.
        """
        per_host = self._overlay.options.aggregators
        places_of = {host: self._overlay.root.add_places(per_host) for host in hosts}
        starting = asyncio.Semaphore(MOST_STARTED)

        async def start(host: str, node: int) -> str:
            async with starting:
                return await self._start(node, host, f"aggregator-{node}.log")

        reasons = await asyncio.gather(
            *(start(host, node) for host, nodes in places_of.items() for node in nodes)
        )
        if self._overlay.site is not None:
            await self._overlay.site.settle()
        failed: dict[str, str] = {}
        for index, why in enumerate(reasons):
            if why:
                failed.setdefault(hosts[index // per_host], why)
        return failed

    async def _call_back(self, nodes: Collection[int]) -> None:
        """Bring aggregators back that live and have only lost their ancestors.

        They would come by themselves, but may take their time. Meanwhile, others would be in their
        places that cannot attach to the ranks.
        """
        root = self._overlay.root
        # The descendants of a living aggregator come back with it only.
        concerned = {each for node in nodes for each in (node, *root.topology.ancestors(node))}
        away = sorted(concerned & root.known.keys() - root.joined.keys())
        answers = await asyncio.gather(
            *(self._overlay.links.answers(root.known[node].address) for node in away)
        )
        living = {node for node, is_there in zip(away, answers, strict=True) if is_there}
        for node in living - root.joined.keys():
            self._overlay.links.keep_orphan(node)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(COME_BACK_S):
                with self._overlay.changes() as changed:
                    while living - root.joined.keys():
                        await changed.wait()
                        changed.clear()

    async def _recover(self, node: int) -> str:
        if node in self._overlay.root.joined:
            return ""
        hello = self._overlay.root.known.get(node)
        if hello is None:
            return "there was never one"
        if not self._overlay.options.host and set(addresses.own_names()) & set(hello.names):
            # An aggregator that hangs still has the ranks.
            await places.wait_gone(hello.pid, HUNG_TIMEOUT_S)
        host = places.name_of(hello, self._overlay.place.hosts) if self._overlay.place.hosts else ""
        return await self._start(node, host, f"aggregator-{node}-again.log")

    async def _start(self, node: int, host: str, log: str) -> str:
        """Start the aggregator of a place, on *host* or on the only one; return why it failed."""
        site = self._overlay.site
        if site is None:
            return "there was never one"
        place = replace(self._overlay.place, hosts=(host,) if host else ())
        if await self._overlay.silent_hosts(place):
            return f"nothing at {host} answers; is it up, and its link?"
        self._overlay.root.expect_successor(node)
        self._overlay.called.pop(node, None)
        start = replace(
            self._overlay.aggregator_start(place, "direct"), per_host=1, first_node=node, log=log
        )
        rendezvous = functools.partial(self._overlay.rendezvous, place.hosts)
        why = "it does not come up"
        starter: Starter | None = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(START_TIMEOUT_S, self._overlay.options.start_timeout_s)):
                try:
                    starter = await site.start(
                        await self._overlay.with_ship(start), self._overlay.on_line, rendezvous
                    )
                    self._overlay.starters.append(starter)
                    if not (why := await self._seat_again(node, starter)):
                        return ""
                except PgdbError as error:
                    why = str(error)
        if starter is not None:
            self._overlay.starters.remove(starter)
            await starter.end()
        return why

    async def _seat_again(self, node: int, starter: Starter) -> str:
        """Wait until a node is in the tree again; return a reason if its launcher has ended.

        A node that cannot call us gets its place by a call.
        """
        root = self._overlay.root
        above = root.topology.ancestors(node)
        is_seated = is_kept = False
        ended = asyncio.create_task(starter.wait())
        try:
            with self._overlay.changes() as changed:
                ended.add_done_callback(lambda _: changed.set())
                while node not in root.joined:
                    if ended.done():
                        return places.explain(starter.last_words()) or "its launcher has ended"
                    address = self._overlay.called.get(node, "")
                    has_parent = not root.joined.keys().isdisjoint(above)
                    if address and not has_parent and not is_kept:
                        # Also when the parent in the table that it got has been lost since.
                        is_kept = True
                        table = root.table_for(node, address, is_parent=True)
                        self._overlay.links.keep(address, table)
                    elif address and has_parent and not (is_seated or is_kept):
                        is_seated = True
                        await self._overlay.links.seat(address, root.table_for(node, address))
                        continue  # others may have come or gone
                    await changed.wait()
                    changed.clear()
            return ""
        finally:
            ended.cancel()
