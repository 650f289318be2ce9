"""A nursery that starts before the session's first request.

If the front end knows a rank of a host, it names the rank to the aggregators that it starts
there, and symbols are read while MPI comes up. The rank only says which files to read: no GDB is
attached, and an unwanted nursery is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping, MutableMapping

import msgspec

from pgdb.backend.sbd import rank_files
from pgdb.backend.sbd.rank_files import RankFiles
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.backend.zygote.nursery import Nursery
from pgdb.bootstrap_env import (
    SYMBOL_PREFETCH_VARIABLE,
    USER_LIBRARY_PATH_VARIABLE,
    USER_PYTHONPATH_VARIABLE,
)
from pgdb.errors import GdbError
from pgdb.jobs import gdb_program, procfs
from pgdb.jobs.placement import scrubbed_environment

LOG = logging.getLogger(__name__)


def gdb_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of our GDBs."""
    found = scrubbed_environment(environment)
    # GDB has a Python of its own, which may be another version.
    found["PYTHONPATH"] = found.pop(USER_PYTHONPATH_VARIABLE, "")
    found["LD_LIBRARY_PATH"] = found.pop(USER_LIBRARY_PATH_VARIABLE, "")
    return {name: value for name, value in found.items() if value}


class Hint(msgspec.Struct, frozen=True):
    """A rank, and the GDB to prefetch with, as the front end names them."""

    pid: int
    start_time_ticks: int
    gdb: str
    """The GDB to run: a path, or a name to search for."""

    @classmethod
    def take(cls, environment: MutableMapping[str, str]) -> Hint | None:
        """Remove the hint from the environment and return it, None if there is none."""
        pid, _, rest = environment.pop(SYMBOL_PREFETCH_VARIABLE, "").partition(":")
        ticks, _, gdb = rest.partition(":")
        return cls(int(pid), int(ticks), gdb) if pid.isdecimal() and ticks.isdecimal() else None

    @property
    def holds(self) -> bool:
        """Whether the process is on this host; elsewhere its number belongs to another process."""
        status = procfs.read_stat(self.pid)
        return status is not None and status.start_time_ticks == self.start_time_ticks


class SymbolPrefetch:
    """A nursery that has started, until a session claims it or closes it."""

    def __init__(self, hint: Hint) -> None:
        self._gdb = gdb_program.find_gdb(hint.gdb) or hint.gdb
        self.notices: list[str] = []
        """Notices for the user; the claimant reports them."""
        self._begun = asyncio.Event()
        self._preparation: asyncio.Task[Nursery | None] | None = asyncio.create_task(
            self._make(hint.pid)
        )

    @classmethod
    def begin(cls, hint: Hint | None) -> SymbolPrefetch | None:
        """Start a prefetch, unless the hint is for another host."""
        return cls(hint) if hint is not None and hint.holds else None

    async def begun(self) -> None:
        """Wait until its GDB has been started, or cannot be."""
        await self._begun.wait()

    async def take(self, gdb: str, files: RankFiles) -> Nursery | None:
        """Return the nursery once, if it has that GDB and those files; else None."""
        if self._preparation is None or self._gdb != gdb:
            return None
        nursery = await asyncio.shield(self._preparation)
        if nursery is None or nursery.files.key != files.key:
            return None
        self._preparation = None
        return nursery

    async def close(self) -> None:
        """End a nursery that nobody took."""
        preparation, self._preparation = self._preparation, None
        if preparation is not None:
            preparation.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                nursery = await preparation
                if nursery is not None:
                    await nursery.close()

    async def _make(self, pid: int) -> Nursery | None:
        try:
            files = rank_files.look_at(pid)
            if not files.are_shared:
                return None
            environment = gdb_environment(os.environ)
            nursery = Nursery(files)
            await nursery.start(self._gdb, environment)
            self._begun.set()
            await nursery.read(pid, IndexCache(environment, self.notices.append))
        except (OSError, GdbError) as error:
            # The session starts its own nursery, and reports that error.
            LOG.info("process %d: no symbol prefetch: %s", pid, error)
            return None
        finally:
            self._begun.set()
        return nursery
