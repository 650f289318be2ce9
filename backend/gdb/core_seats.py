"""A limit for the GDBs of core files: the one that was idle longest makes room for the next.

Two thousand GDBs do not fit into the memory of a host. A core file loses nothing when its GDB ends.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections import deque
from collections.abc import Callable
from typing import Protocol

from pgdb.jobs.file_limit import own_file_limit

LEAST_GDBS = 8
MOST_GDBS = 1024
"""Limit for what memory alone would allow: a user has so many processes in most places."""
_FILES_PER_GDB = 3
"""Open files of the aggregator for a GDB: two, and one for the core while GDB opens it."""
_OTHER_FILES = 64
_GROWTH = 2
"""A GDB that has shown stacks and values takes about twice the memory that it began with."""


class Holder(Protocol):
    """The debugger of one core."""

    async def give_up(self) -> None:
        """End the GDB."""


def seats_for(private_bytes: int, free_bytes: int, sharers: int = 1) -> int:
    """Return the number of GDBs for which half of the free memory is enough.

    :param private_bytes: memory that one GDB does not share with the others.
    :param sharers: number of aggregators among which the memory is divided.
    """
    fitting = free_bytes // 2 // (_GROWTH * max(1, private_bytes))
    return max(least_gdbs(sharers), min(MOST_GDBS, fitting) // sharers)


def most_by_limits(files: int, processes: int, sharers: int = 1) -> int:
    """Return the number of GDBs that the limits of a process allow.

    :param files: most open files (ulimit -n).
    :param processes: most processes of the user (ulimit -u).
    :param sharers: number of aggregators of the user on this host.
    """
    by_files = (files - _OTHER_FILES) // _FILES_PER_GDB
    return max(least_gdbs(sharers), min(by_files, processes // 2 // sharers))


def least_gdbs(sharers: int) -> int:
    """Return the number of GDBs that an aggregator has even where they fit nowhere."""
    return max(1, LEAST_GDBS // sharers)


def own_limits() -> tuple[int, int]:
    """Return the most open files and processes that this process can have."""
    processes, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    is_bound = processes != resource.RLIM_INFINITY
    return own_file_limit(), processes if is_bound else sys.maxsize


def private_bytes_of(pid: int) -> int:
    """Return the memory that a process shares with no other one, 0 if unknown."""
    return _sum_of(f"/proc/{pid}/smaps_rollup", ("Private_Clean:", "Private_Dirty:"))


def free_memory_bytes() -> int:
    """Return the memory of this host that is free or can be freed."""
    return _sum_of("/proc/meminfo", ("MemAvailable:",))


def _sum_of(path: str, names: tuple[str, ...]) -> int:
    try:
        with open(path, encoding="ascii") as file:
            rows = [line.split() for line in file if line.startswith(names)]
        return sum(int(row[1]) * 1024 for row in rows)
    except (OSError, ValueError, IndexError):
        return 0


class Seats:
    """The right to have a GDB, which some of the debuggers of core files have."""

    def __init__(
        self,
        most: int = 0,
        *,
        limit: int = MOST_GDBS,
        sharers: int = 1,
        on_fitted: Callable[[int], None] = lambda most: None,
    ) -> None:
        """Give *most* seats, but not more than *limit*.

        :param most: 0 for so many as :meth:`fit` finds room for, which gives the number to
            *on_fitted*.
        :param sharers: number of aggregators among which :meth:`fit` divides the memory.
        """
        self._is_fitted = most > 0
        self._limit = limit
        self._sharers = sharers
        self._on_fitted = on_fitted
        self.most = min(most or least_gdbs(sharers), limit)
        # In the order of the last use: dicts keep it.
        self._held: dict[Holder, None] = {}
        self._busy: set[Holder] = set()
        self._waiting: deque[tuple[Holder, asyncio.Future[Holder | None]]] = deque()

    @property
    def count(self) -> int:
        """Number of debuggers that have a GDB."""
        return len(self._held)

    async def fit(self, pid: int) -> None:
        """Set the number of seats by the memory of the first GDB that has read a core."""
        if self._is_fitted:
            return
        self._is_fitted = True
        private_bytes, free_bytes = await asyncio.to_thread(
            lambda: (private_bytes_of(pid), free_memory_bytes())
        )
        most = least_gdbs(self._sharers)
        if private_bytes:
            most = seats_for(private_bytes, free_bytes, self._sharers)
        self.most = min(most, self._limit)
        self._on_fitted(self.most)
        self._give()

    async def take(self, holder: Holder) -> None:
        """Give *holder* a seat, until :meth:`release` for certain; wait for one if need be."""
        if holder in self._held:
            self._held[holder] = self._held.pop(holder)
            self._busy.add(holder)
            return
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Holder | None] = loop.create_future()
        self._waiting.append((holder, turn))
        # Not at once: a command for all cores comes to each of them in this turn of the loop, and
        # those that have a GDB now answer with it before another core gets their seat.
        loop.call_soon(self._give)
        try:
            if (idle := await turn) is not None:
                await idle.give_up()
        except BaseException:
            self.leave(holder)
            raise

    def release(self, holder: Holder) -> None:
        """Let another debugger have the seat of *holder* if it wants it."""
        self._busy.discard(holder)
        self._give()

    def leave(self, holder: Holder) -> None:
        """Take a seat back: the GDB of *holder* has ended for good."""
        self._busy.discard(holder)
        self._held.pop(holder, None)
        self._give()

    def _give(self) -> None:
        """Give the free seats, and those of idle debuggers, to the debuggers that wait."""
        while self._waiting:
            holder, turn = self._waiting[0]
            if not turn.done():
                idle = None
                if len(self._held) >= self.most:
                    idle = next((each for each in self._held if each not in self._busy), None)
                    if idle is None:
                        return
                    del self._held[idle]
                self._held[holder] = None
                self._busy.add(holder)
                turn.set_result(idle)
            self._waiting.popleft()
