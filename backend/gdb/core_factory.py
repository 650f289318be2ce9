"""The debuggers of ranks that are core files, and what these share: nursery and seats."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

from pgdb.backend.gdb.core_debugger import CoreDebugger
from pgdb.backend.gdb.core_seats import Seats, most_by_limits, own_limits
from pgdb.backend.rank.protocol import FactoryContext
from pgdb.backend.zygote.gdb_factory import open_gdbs


def most_at_work() -> int:
    """Return the most GDBs that carry out commands at a time.

    A thousand that compute at once leave the aggregator no time to show that it lives.
    """
    return max(8, 4 * (os.cpu_count() or 1))


class CoreDebuggers:
    """A debugger factory that gives each rank a GDB which has read its core file."""

    debuggers = "GDBs"

    def __init__(self, context: FactoryContext) -> None:
        setup, notice = context.setup, context.notice
        assert setup.cores is not None
        self._context, self._cores = context, setup.cores
        sharers = self._cores.sharers
        self._limit = most_by_limits(*own_limits(), sharers)
        asked = self._cores.most_gdbs
        self._seats = Seats(asked, limit=self._limit, sharers=sharers, on_fitted=self._note_limit)
        if self._limit < asked:
            self._note_limit(self._limit)
        self._gdb_factory, self._nurseries = open_gdbs(
            setup, notice, shares_nursery=context.rank_count > 1
        )
        # GDBs that read symbols all at once would only compete for the host's cores.
        self._opening = asyncio.Semaphore(max(2, 2 * (os.cpu_count() or 1)))
        self._working = asyncio.Semaphore(most_at_work())

    def make(self, rank: int) -> CoreDebugger:
        """Return a new debugger for *rank*, whose GDB starts when it loads the core."""
        return CoreDebugger(
            rank,
            self._context.core_paths[rank],
            executable=self._cores.executable,
            gdb_factory=self._gdb_factory,
            seats=self._seats,
            opening=self._opening,
            working=self._working,
            notify=self._context.notify,
        )

    def _note_limit(self, most_gdbs: int) -> None:
        """Report to the user that not all core files have a GDB at a time."""
        if most_gdbs >= (count := self._context.rank_count):
            return
        if most_gdbs == self._limit:
            why = "the limits of open files and processes allow (ulimit -Hn, ulimit -u)"
        else:
            why = "memory allows (--core-gdbs sets another number)"
        self._context.notice(
            f"{most_gdbs} of {count} core files have a GDB at a time, as {why}; GDBs start again "
            "for the others"
        )

    def pause(self, pids: Iterable[int]) -> None:
        """Do nothing: core files do not compute."""

    async def release(self, pid: int) -> None:
        """Do nothing: core files do not compute."""

    async def close(self) -> None:
        """End the nurseries."""
        if self._nurseries is not None:
            await self._nurseries.close()
