"""The source of a rank's GDB: a fork from a nursery, or a process started for that rank alone."""

from __future__ import annotations

import logging
import os
import sys
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.process import AFTER_ATTACH, start_with
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.settings import RESTORE_DEPTH, USE_INDEX_CACHE, Setting, settings
from pgdb.backend.sbd.rank_files import RankFiles
from pgdb.backend.zygote.core_programs import CoreProgram
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.backend.zygote.nursery import Nurseries, Nursery, why_not
from pgdb.backend.zygote.symbol_prefetch import SymbolPrefetch, gdb_environment
from pgdb.errors import GdbError
from pgdb.jobs.gdb_program import MINIMUM_GDB, find_gdb, version_in
from pgdb.overlay.messages import Setup

LOG = logging.getLogger(__name__)
_WITHOUT_PYTHON = "not supported in this copy of GDB"


def open_gdbs(
    setup: Setup,
    notice: Callable[[str], None],
    *,
    shares_nursery: bool,
    free: Callable[[int], Awaitable[None]] | None = None,
    symbol_prefetch: SymbolPrefetch | None = None,
    most_gdbs: int = sys.maxsize,
) -> tuple[GdbFactory, Nurseries | None]:
    """Return the factory of one aggregator's GDBs, and its nurseries, which the caller closes.

    There are nurseries if the ranks can share them and the session's settings allow it. *free* and
    *symbol_prefetch* are theirs. *most_gdbs* is the limit that :class:`GdbFactory` has.
    """
    environment = gdb_environment(os.environ)
    gdb = find_gdb(setup.gdb) or setup.gdb
    index_cache = IndexCache(environment, notice)
    nurseries = None
    if setup.nursery and shares_nursery:
        nurseries = Nurseries(gdb, environment, notice, index_cache, free, symbol_prefetch)
        if reason := why_not(setup.gdb_commands):
            nurseries.fell_back(reason)
            nurseries = None
    factory = GdbFactory(
        gdb,
        environment,
        setup.gdb_commands,
        index_cache,
        nurseries,
        expected_version=setup.gdb_version,
        notice=notice,
        most_gdbs=most_gdbs,
    )
    return factory, nurseries


class GdbFactory:
    """Starter of the GDBs of one aggregator's ranks."""

    def __init__(
        self,
        gdb: str,
        environment: Mapping[str, str],
        commands: Sequence[str],
        index_cache: IndexCache,
        nurseries: Nurseries | None = None,
        *,
        expected_version: str = "",
        notice: Callable[[str], None] = LOG.info,
        most_gdbs: int = sys.maxsize,
    ) -> None:
        """Start GDBs of the program *gdb*.

        :param most_gdbs: number of GDBs at a time for which the limit of open files is enough.
        """
        self._most_gdbs = most_gdbs
        self._begun: weakref.WeakSet[GdbSession] = weakref.WeakSet()
        self._expected_version = expected_version
        self._version: tuple[int, int] | None = None
        self._has_warned = False
        self._notice = notice
        self._index_cache = index_cache
        self._gdb = gdb
        self._environment = environment
        self._own = tuple(Setting(command) for command in commands)
        self._own_may_print = any(not each.startswith("set ") for each in commands)
        self._nurseries = nurseries

    async def start(self, gdb: GdbSession, pid: int = 0) -> None:
        """Start a GDB without symbols, and configure it; the user's commands come last.

        The GDB is for process *pid*, or (0) for one that has yet to execute its program (see
        :meth:`executed`).

        :raises GdbError: if GDB cannot be started, or refuses a required setting.
        """
        self._admit(gdb)
        await gdb.start(start_with(self._gdb, self._environment))
        await self._check_version(gdb)
        has_cache = bool(pid) and await self._index_cache.is_sound_for(pid)
        await self._configure(gdb, (*settings(index_cache=has_cache), *self._own))

    async def executed(self, gdb: GdbSession, pid: int) -> None:
        """Enable the index cache after the process of a GDB has executed its program."""
        if await self._index_cache.is_sound_for(pid):
            await gdb.console(USE_INDEX_CACHE)

    async def start_for(self, gdb: GdbSession, files: RankFiles, pid: int) -> bool:
        """Start a GDB for process *pid*; return whether it comes from a nursery.

        A GDB from a nursery has read the symbols of *files*, and has two inferiors (see
        :data:`~pgdb.backend.gdb.process.AFTER_ATTACH`).

        :raises GdbError: if it cannot be started, or refuses a command of the user's.
        """
        self._admit(gdb)
        nursery = await self._nurseries.find(files, pid) if self._nurseries is not None else None
        return await self._fork(gdb, nursery, pid)

    async def start_for_core(self, gdb: GdbSession, program: CoreProgram) -> bool:
        """Start a GDB for a core file of a program; return whether it comes from a nursery.

        A GDB from a nursery has read the symbols of the program, and needs :meth:`settle` once it
        has read the core.

        :raises GdbError: if it cannot be started, or refuses a command of the user's.
        """
        nursery = None
        if self._nurseries is not None and program.executable:
            nursery = await self._nurseries.find_for_core(program)
        return await self._fork(gdb, nursery)

    async def _fork(self, gdb: GdbSession, nursery: Nursery | None, pid: int = 0) -> bool:
        """Fork a GDB from a nursery, or start one; return whether it is forked."""
        if nursery is None or self._nurseries is None:
            await self.start(gdb, pid)
            return False
        try:
            await gdb.start(nursery.fork)
            gdb.lent.begin_changed(RESTORE_DEPTH)
        except GdbError as error:
            self._nurseries.fell_back(error)
            await self.start(gdb, pid)
            return False
        await self._check_version(gdb)
        await self._configure(gdb, self._own)
        return True

    async def settle(self, gdb: GdbSession) -> None:
        """Turn a forked GDB that has read its core into a GDB like any other, when it must be."""
        gdb.put_off(console(AFTER_ATTACH))

    def _admit(self, gdb: GdbSession) -> None:
        """Count a GDB that is about to start.

        Where files run out later, PGDB can read nothing of a rank, and takes a live one for one
        that has ended.

        :raises GdbError: if too many are alive.
        """
        if len(self._begun) >= self._most_gdbs and gdb not in self._begun:
            for each in [each for each in self._begun if each.pid and not each.is_alive]:
                self._begun.discard(each)
            if len(self._begun) >= self._most_gdbs:
                raise GdbError(
                    f"no GDB: the limit of open files of its aggregator (ulimit -Hn) is enough for "
                    f"{self._most_gdbs} GDBs; a higher limit, or '--aggregators N', which divides "
                    "the ranks of a host"
                )
        self._begun.add(gdb)

    async def _check_version(self, gdb: GdbSession) -> None:
        """Check this host's GDB against the required version, and once against the front end's.

        :raises GdbError: if it is too old.
        """
        if self._version is None:
            text = (await gdb.console("show version")).text
            self._version = version_in(text) or MINIMUM_GDB
            version = ".".join(map(str, self._version))
            expected, self._expected_version = self._expected_version, ""
            if expected not in ("", version):
                self._notice(
                    f"GDB {version} here, {expected} at the front end; "
                    "equal states may be worded differently"
                )
        if self._version < MINIMUM_GDB:
            version, wanted = (".".join(map(str, each)) for each in (self._version, MINIMUM_GDB))
            raise GdbError(
                f"{self._gdb} is GDB {version} on this host; at least {wanted} is needed"
            )

    async def _configure(self, gdb: GdbSession, settings: Sequence[Setting]) -> None:
        gdb.lent.is_shown_unasked |= self._own_may_print
        answers = [gdb.console(each.command) for each in settings]
        for each, answer in zip(settings, answers, strict=True):
            result = await answer
            if result.kind != "error":
                continue
            if each.must:
                raise GdbError(f"GDB refuses '{each.command}': {result.message}")
            if _WITHOUT_PYTHON in result.message and not self._has_warned:
                # A nursery that failed has already reported it.
                self._has_warned = True
                if self._nurseries is None or not self._nurseries.has_fallen_back:
                    self._notice(
                        f"{self._gdb} has no Python on this host: it works more slowly, and shows "
                        "values of C++ as they are in memory"
                    )
