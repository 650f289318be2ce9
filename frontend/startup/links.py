"""The links that the front end opens to aggregators, and keeps.

With ``--connect`` and ``--host``, it opens a link to the first aggregator, and to each aggregator
that has lost all its ancestors and cannot call the front end.
"""

from __future__ import annotations

import asyncio

from pgdb.errors import LinkError, StartError
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.transport.overlay_root import Root
from pgdb.overlay.channel import CALLED_LATER_S, HEARTBEAT_S, Channel, close_unused, connect
from pgdb.overlay.messages import Table

CALL_AGAIN_S = 1.0
MOST_CALLED = 64
"""Number of aggregators that are called at a time."""
ORPHANS_AFTER_S = 1.0
"""Time for a lost aggregator to answer, before its descendants are called."""
ANSWER_TIMEOUT_S = 3.0
"""Time for a living aggregator to answer a call."""
SAY_TIMEOUT_S = 10.0
CLOSE_S = 1.0
"""Time for an aggregator to notice the end of its link, before the connection is dropped."""


class Links:
    """The links of one session that the front end has opened."""

    def __init__(self, root: Root, options: SessionOptions) -> None:
        self._root = root
        self._options = options
        self._kept: dict[int, tuple[int, asyncio.Task[None]]] = {}
        """For each node, its generation and the task that keeps its link."""
        self._calling = asyncio.Semaphore(MOST_CALLED)
        self._is_stopped = False
        self.credentials = b""
        """Credentials of the session, once they exist."""

    def keep(
        self, address: str, table: Table, *, must_be_there: bool = False
    ) -> asyncio.Task[None]:
        """Be the parent of the aggregator at *address*, which *table* is for; return the task for
        it.

        After the loss of the link, the task calls the aggregator again, for the grace time. If
        it cannot reach the aggregator, it calls its descendants, which cannot call us. An
        aggregator that has another parent refuses.

        An earlier task for that node is cancelled. The task fails with :exc:`StartError` if the
        aggregator *must_be_there* and cannot be reached the first time.
        """
        if table.node in self._kept:
            self._kept[table.node][1].cancel()
        task = asyncio.create_task(self._keep(address, table, must_be_there))
        self._kept[table.node] = table.generation, task
        return task

    def keep_orphan(self, node: int) -> None:
        """Be the parent of an aggregator that may live, and has lost its ancestors."""
        known, topology = self._root.known[node], self._root.topology
        table = Table(
            node=node,
            count=topology.count,
            fan_out=topology.fan_out,
            addresses=(),
            is_parent=True,
            generation=known.generation,
        )
        self.keep(known.address, table)

    async def seat(self, address: str, table: Table) -> None:
        """Send an aggregator that waits for a call its place below another one.

        :raises LinkError: if it cannot be reached.
        """
        channel = await self._call(address)
        channel.send(table)
        channel.close()
        await channel.wait_closed(SAY_TIMEOUT_S)

    async def answers(self, address: str) -> bool:
        """Return whether the aggregator at *address* answers.

        One that hangs does not, nor one that cannot be reached from here.
        """
        # ssh needs a while before the first byte passes.
        limit_s = None if self._via(address) else ANSWER_TIMEOUT_S
        async with self._calling:
            try:
                async with asyncio.timeout(limit_s):
                    channel = await self._call(address)
            except (LinkError, TimeoutError):
                return False
        channel.close()
        return True

    def stop(self) -> None:
        """Make no more calls; open links stay open."""
        self._is_stopped = True

    async def end(self) -> None:
        """Close all links."""
        tasks = [task for _, task in self._kept.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._kept.clear()

    async def _keep(self, address: str, table: Table, must_be_there: bool) -> None:
        loop = asyncio.get_running_loop()
        lost_at = loop.time()
        while not self._is_stopped:
            try:
                if must_be_there:
                    channel = await self._call(address)
                else:
                    channel = await self._call_again(address, table.node)
            except LinkError as error:
                if must_be_there:
                    raise StartError(f"cannot reach the first aggregator: {error}") from None
                self._call_orphans(table.node)
            else:
                must_be_there = False
                channel.send(table)
                before = self._root.known.get(table.node)
                try:
                    await self._root.serve_child(channel)
                finally:
                    await channel.wait_closed(CLOSE_S)
                if self._root.known.get(table.node) is not before:
                    lost_at = loop.time()
                    continue
            # They notice a loss up to a heartbeat after us, and then live for the grace time.
            limit_s = self._options.grace_s + HEARTBEAT_S + CALLED_LATER_S
            if table.node in self._root.joined or loop.time() > lost_at + limit_s:
                return
            await asyncio.sleep(CALL_AGAIN_S)

    async def _call_again(self, address: str, node: int) -> Channel:
        """Call an aggregator; if it does not answer soon, call its descendants as well.

        An aggregator that hangs fails later than its descendants can live without a parent.

        :raises LinkError: if it cannot be reached.
        """
        calling = asyncio.create_task(self._call(address))
        try:
            # Through ssh no aggregator answers soon.
            limit_s = None if self._via(address) else ORPHANS_AFTER_S
            await asyncio.wait((calling,), timeout=limit_s)
            if not calling.done():
                self._call_orphans(node)
            return await calling
        except asyncio.CancelledError:
            calling.cancel()
            calling.add_done_callback(close_unused)
            raise

    def _call_orphans(self, lost: int) -> None:
        """Call the children of a lost aggregator."""
        root = self._root
        # In order: most descendants come back with their parents.
        for node in root.topology.subtree(lost)[1:]:
            called = {
                other: generation
                for other, (generation, task) in self._kept.items()
                if not task.done()
            }
            if len(called) >= MOST_CALLED:
                return
            if node in root.joined or node not in root.known:
                continue
            # The call may still be for an aggregator whose place another one has, in vain; one that
            # is about to get the place is not known yet.
            if node not in called or called[node] < root.known[node].generation:
                self.keep_orphan(node)

    async def _call(self, address: str) -> Channel:
        return await connect(address, self.credentials, via=self._via(address))

    def _via(self, address: str) -> tuple[str, ...]:
        host = self._options.host
        return (*self._options.ssh, "-W", address, host) if host else ()
