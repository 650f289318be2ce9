"""The first start of a session's aggregators: attempts, until one brings them into the tree."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from pgdb.errors import StartError
from pgdb.frontend.startup.places import Place, explain, hangs_between_hosts
from pgdb.frontend.startup.site import AggregatorStart, GetRendezvous, Site
from pgdb.jobs.launchers import Family
from pgdb.overlay.messages import Table
from pgdb.overlay.topology import Topology

if TYPE_CHECKING:
    from pgdb.frontend.startup.overlay import Overlay

LOG = logging.getLogger(__name__)

TOGETHER_TIMEOUT_S = 40.0
"""Time for one launcher to start the aggregators of several hosts, before each host gets a launcher
of its own; at most half of the time for the whole start."""
STRAGGLER_S = 10.0
"""Time after the first aggregator for the others, where each host has a launcher of its own."""
WireUp = Literal["mpi", "direct"]


class FirstStart:
    """The attempts to start all aggregators of an overlay at a place."""

    def __init__(
        self,
        overlay: Overlay,
        site: Site,
        place: Place,
        *,
        silent: frozenset[str],
        changed: asyncio.Event,
    ) -> None:
        self._overlay = overlay
        self._options = overlay.options
        self._root = overlay.root
        self._site = site
        self._place = place
        self._silent = silent
        self._changed = changed

    async def run(self) -> None:
        """Start the aggregators and wait until all that come are in the tree.

        :raises StartError: if no aggregator starts.
        """
        first_error: StartError | None = None
        for together, wire_up in self._attempts():
            try:
                await self._try(wire_up, together=together)
                return
            except StartError as error:
                LOG.info("aggregators (%s, together %s): %s", wire_up, together, error)
                first_error = first_error or error
                await self._begin_again()
        assert first_error is not None
        raise first_error

    def _attempts(self) -> list[tuple[bool, WireUp]]:
        wanted, place = self._options.wire_up, self._place
        family = place.launcher.family if place.launcher is not None else None
        # MPI among our own processes works only with the launcher of that MPI.
        mpi: list[tuple[bool, WireUp]] = [(True, "mpi")]
        if family in (None, Family.SLURM) or wanted == "direct" or hangs_between_hosts(place):
            mpi = []
        if wanted == "mpi":
            return mpi or [(True, "mpi")]
        apart: list[tuple[bool, WireUp]] = [(False, "direct")]
        if place.launcher is not None and not place.hosts:
            apart = []
        if place.launcher is None:
            return apart
        if self._silent:
            return apart
        return [*mpi, (True, "direct"), *apart]

    @property
    def _per_start(self) -> int:
        """Number of aggregators that one of several starts brings up."""
        return self._options.aggregators if self._place.hosts else 1

    async def _try(self, wire_up: WireUp, *, together: bool) -> None:
        options = self._options
        start = self._overlay.aggregator_start(self._place, wire_up)
        rendezvous = functools.partial(self._overlay.rendezvous, self._place.hosts)
        starts = [start]
        if not together:
            starts = [
                replace(
                    start,
                    hosts=(host,) if host else (),
                    first_node=number * self._per_start,
                    log=f"aggregators-{number}.log",
                )
                for number, host in enumerate(self._place.hosts or ("",) * options.aggregators)
            ]
        limit_s = None
        if together:
            limit_s = min(TOGETHER_TIMEOUT_S, options.start_timeout_s / 2)
        try:
            async with asyncio.timeout(limit_s):
                ended = [
                    asyncio.create_task(self._run_starter(each, rendezvous)) for each in starts
                ]
                try:
                    await self._gather(wire_up, ended, together=together)
                finally:
                    for task in ended:
                        task.cancel()
        except TimeoutError:
            got, wanted = self._overlay.progress()
            words = self._overlay.last_words()
            raise StartError(
                f"{got} of {wanted} aggregators within {limit_s:g} s. {words}".rstrip()
            ) from None

    async def _run_starter(self, start: AggregatorStart, rendezvous: GetRendezvous) -> str:
        """Run one process that starts aggregators; return its last words after its end."""
        start = await self._overlay.with_ship(start)
        starter = await self._site.start(start, self._overlay.on_line, rendezvous)
        self._overlay.starters.append(starter)
        try:
            await starter.wait()
        except asyncio.CancelledError:
            # The session starts without the aggregators that have not come.
            if set(start.hosts) <= self._overlay.failed.keys() and start.hosts:
                self._overlay.starters.remove(starter)
                self._overlay.useless.add(asyncio.create_task(starter.end()))
            raise
        return explain(starter.last_words(), start.python or sys.executable)

    async def _gather(
        self,
        wire_up: WireUp,
        ended: Sequence[asyncio.Task[str]],
        *,
        together: bool,
    ) -> None:
        """Wait for the aggregators, assign their places, and wait until they are in the tree."""
        loop = asyncio.get_running_loop()
        first_at: float | None = None
        begun = loop.time()
        wanted = set(range(self._overlay.expected))
        while True:
            here = self._here(wire_up)
            if first_at is None and here:
                first_at = loop.time()
            gone = self._gone(ended, together=together)
            if not wanted - here - gone.keys():
                break
            if together and self._overlay.refused:
                # A launcher that should end with the others may never do so (Open MPI 4.1).
                break
            limit_s = None
            if not together and first_at is not None:
                limit_s = first_at + max(STRAGGLER_S, 2 * (first_at - begun)) - loop.time()
                if limit_s <= 0:
                    break
            changed = asyncio.ensure_future(self._changed.wait())
            still = [task for task in ended if not task.done()]
            try:
                await asyncio.wait(
                    (changed, *still), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                changed.cancel()
            self._changed.clear()
        here = self._here(wire_up)
        for node in sorted(wanted - here, key=lambda each: (each not in gone, each)):
            host = self._place.hosts[node // self._options.aggregators] if self._place.hosts else ""
            why = gone.get(node, "it does not answer")
            if together or not here:
                raise StartError(f"{host}: {why}" if host and not together else why)
            if host in self._silent:
                why = f"nothing at {host} answers; is it up, and its link? ({why})"
            first = node - node % self._options.aggregators
            if here.isdisjoint(range(first, first + self._options.aggregators)):
                self._overlay.failed[host] = why
        await self._seat(wire_up, here)

    def _here(self, wire_up: WireUp) -> set[int]:
        """Return the aggregators that wait for their place, or need none."""
        if self._options.calls:
            called = self._overlay.called
            is_whole = wire_up == "mpi" and called
            return set(range(self._overlay.expected)) if is_whole else {*called}
        return set(self._root.joined if wire_up == "mpi" else self._root.asking)

    def _gone(self, ended: Sequence[asyncio.Task[str]], *, together: bool) -> dict[int, str]:
        """Return the aggregators that will not come, and the reasons."""
        gone = dict(self._overlay.refused)
        per_start = self._per_start
        for number, task in enumerate(ended):
            if not task.done():
                continue
            error = task.exception()
            if error is not None and not isinstance(error, StartError):
                raise error
            why = str(error) if error is not None else task.result() or "no message"
            nodes = range(self._overlay.expected)
            if not together:
                nodes = range(number * per_start, (number + 1) * per_start)
            else:
                why = f"the aggregators' launcher ended at once: {why}"
            gone.update({node: gone.get(node, why) for node in nodes})
        return gone

    async def _seat(self, wire_up: WireUp, nodes: set[int]) -> None:
        """Assign the aggregators that came their places in the tree."""
        if wire_up == "direct":
            self._overlay.expected = len(nodes)
            self._root.place(
                self._root.number, Topology(count=len(nodes), fan_out=self._options.fan_out)
            )
        link: asyncio.Task[None] | None = None
        if self._options.calls:
            called = [self._overlay.called[node] for node in sorted(self._overlay.called)]
            table = Table(
                node=0,
                count=self._overlay.expected,
                fan_out=self._options.fan_out,
                addresses=tuple(called) if wire_up == "direct" else (),
                is_parent=True,
            )
            link = self._overlay.links.keep(called[0], table, must_be_there=True)
            link.add_done_callback(lambda _: self._changed.set())
        elif wire_up == "direct":
            self._root.seat()
        while len(self._root.joined) < self._overlay.expected:
            if self._overlay.refused:
                raise StartError(next(iter(self._overlay.refused.values())))
            if link is not None and link.done():
                link.result()
            await self._changed.wait()
            self._changed.clear()

    async def _begin_again(self) -> None:
        overlay = self._overlay
        overlay.root.begin_again()
        await overlay.links.end()
        await asyncio.gather(*(starter.end() for starter in overlay.starters))
        overlay.starters.clear()
        overlay.called.clear()
        overlay.refused.clear()
        overlay.failed.clear()
