"""A limit for the GDBs of core files: the one that was idle longest makes room for the next.

Two thousand GDBs do not fit into the memory of a host. A core file loses nothing when its GDB ends.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from typing import Protocol

_GDB_BYTES = 96 << 20
"""Memory that a GDB takes beside that of its nursery: its own copy of pages, and what it reads."""
LEAST_GDBS = 8


class Holder(Protocol):
    """The debugger of one core."""

    async def give_up(self) -> None:
        """End the GDB."""


def default_seats() -> int:
    """Return the number of GDBs for which half of the free memory is enough."""
    free_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    free_bytes = int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return max(LEAST_GDBS, free_bytes // 2 // _GDB_BYTES)


class Seats:
    """The right to have a GDB, which some of the debuggers of core files have."""

    def __init__(self, most: int) -> None:
        self.most = max(1, most)
        # In the order of the last use: dicts keep it.
        self._held: dict[Holder, None] = {}
        self._busy: set[Holder] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def count(self) -> int:
        """Number of debuggers that have a GDB."""
        return len(self._held)

    async def take(self, holder: Holder) -> None:
        """Give *holder* a seat, until :meth:`release` for certain; wait for one if need be."""
        while True:
            if holder in self._held:
                self._held[holder] = self._held.pop(holder)
                self._busy.add(holder)
                return
            idle = next((each for each in self._held if each not in self._busy), None)
            if len(self._held) < self.most or idle is not None:
                self._held[holder] = None
                self._busy.add(holder)
                if len(self._held) > self.most and idle is not None:
                    del self._held[idle]
                    await idle.give_up()
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    def release(self, holder: Holder) -> None:
        """Let another debugger have the seat of *holder* if it wants it."""
        self._busy.discard(holder)
        self._wake()

    def leave(self, holder: Holder) -> None:
        """Take a seat back: the GDB of *holder* has ended for good."""
        self._busy.discard(holder)
        self._held.pop(holder, None)
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
