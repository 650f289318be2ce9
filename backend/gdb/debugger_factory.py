"""The debuggers of one aggregator's ranks, and what these share: nursery, index cache, pauser."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

from pgdb.backend.care.pausing import Pauser
from pgdb.backend.gdb.attach import as_they_are
from pgdb.backend.gdb.debugger import GdbDebugger
from pgdb.backend.gdb.gpu_turns import GpuTurns
from pgdb.backend.rank.protocol import DebuggerFactory, FactoryContext, OpenFactory
from pgdb.backend.sbd.deployment import Deployment
from pgdb.backend.sbd.rank_files import can_open_any, mapped
from pgdb.backend.zygote.gdb_factory import open_gdbs
from pgdb.backend.zygote.symbol_prefetch import SymbolPrefetch
from pgdb.jobs import file_limit

_FILES_PER_RANK = 6
"""Open files of the aggregator for a rank: pipes and errors of its GDB, and watches of both."""
_OTHER_FILES = 64
"""Open files of the aggregator besides, its links and those that are open for a moment included."""
_KEPT_FILES = 192
"""Programs and libraries of the ranks that an ordinary user's aggregator keeps open."""


def most_gdbs(files: int) -> int:
    """Return the number of GDBs for which a limit of open files is enough."""
    pid = os.getpid()
    keeps_files = any(not can_open_any(pid, each) for each in mapped(pid))
    others = _OTHER_FILES + keeps_files * _KEPT_FILES
    return max(1, (files - others) // _FILES_PER_RANK)


class GdbDebuggers:
    """A debugger factory that gives each rank a GDB."""

    debuggers = "GDBs"

    def __init__(
        self, context: FactoryContext, symbol_prefetch: SymbolPrefetch | None = None
    ) -> None:
        setup, notice = context.setup, context.notice
        self._context = context
        self._symbol_prefetch = symbol_prefetch
        self._pauser = Pauser()
        self._turns = GpuTurns()
        self._closing: asyncio.Task[None] | None = None
        self._gdb_factory, self._nurseries = open_gdbs(
            setup,
            notice,
            # Held ranks have no program yet, and a single rank shares a nursery with no other.
            shares_nursery=not setup.is_held and context.rank_count > 1,
            free=self._pauser.release,
            symbol_prefetch=symbol_prefetch,
            most_gdbs=most_gdbs(file_limit.own_file_limit()),
        )
        if self._nurseries is None and symbol_prefetch is not None:
            self._closing = asyncio.create_task(symbol_prefetch.close())
        self._deployment: Deployment | None = None
        if setup.deploy is not None and context.delivery is not None:
            self._deployment = Deployment(
                context.delivery, gdb=setup.gdb, wait_s=setup.deploy.wait_s, notice=notice
            )

    def make(self, rank: int) -> GdbDebugger:
        """Return a new debugger for *rank*, whose GDB starts when it attaches."""
        setup, deployment = self._context.setup, self._deployment
        return GdbDebugger(
            rank,
            gdb_factory=self._gdb_factory,
            program=setup.program,
            notify=self._context.notify,
            localise=deployment.localised if deployment is not None else as_they_are,
            pauser=self._pauser,
            is_guarded=setup.guard,
            turns=self._turns,
        )

    def pause(self, pids: Iterable[int]) -> None:
        """Keep processes from computing until GDBs are attached to them."""
        self._pauser.pause(pids)

    async def release(self, pid: int) -> None:
        """End the pause of process *pid*; return once it can be attached to."""
        await self._pauser.release(pid)

    async def close(self) -> None:
        """Release all processes; end the nurseries, the symbol prefetch and the deployment."""
        self._pauser.release_all()
        if self._closing is not None:
            self._closing.cancel()
            await asyncio.gather(self._closing, return_exceptions=True)
        if self._nurseries is not None:
            await self._nurseries.close()
        if self._symbol_prefetch is not None:
            await self._symbol_prefetch.close()
        if self._deployment is not None:
            await self._deployment.close()


def gdb_debuggers(symbol_prefetch: SymbolPrefetch | None = None) -> OpenFactory:
    """Return the opener of GDB factories, the first of which uses *symbol_prefetch*."""

    def open_factory(context: FactoryContext) -> DebuggerFactory:
        if context.setup.cores is None:
            return GdbDebuggers(context, symbol_prefetch)
        # Only sessions of core files load these modules.
        from pgdb.backend.gdb.core_factory import CoreDebuggers

        return CoreDebuggers(context)

    return open_factory
