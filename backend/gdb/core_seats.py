"""A limit for the GDBs of core files: the one that was idle longest makes room for the next.

Two thousand GDBs do not fit into the memory of a host. A core file loses nothing when its GDB ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

LEAST_GDBS = 8
MOST_GDBS = 1024
"""Limit for what memory alone would allow: a user has so many processes in most places."""
_GROWTH = 2
"""A GDB that has shown stacks and values takes about twice the memory that it began with."""


class Holder(Protocol):
    """The debugger of one core."""

    async def give_up(self) -> None:
        """End the GDB."""


def seats_for(private_bytes: int, free_bytes: int) -> int:
    """Return the number of GDBs for which half of the free memory is enough.

    :param private_bytes: memory that one GDB does not share with the others.
    """
    return min(MOST_GDBS, max(LEAST_GDBS, free_bytes // 2 // (_GROWTH * max(1, private_bytes))))


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

    def __init__(self, most: int = 0) -> None:
        """Give *most* seats; 0: so many as :meth:`fit` finds room for."""
        self._is_fitted = most > 0
        self.most = most or LEAST_GDBS
        # In the order of the last use: dicts keep it.
        self._held: dict[Holder, None] = {}
        self._busy: set[Holder] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()

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
        self.most = seats_for(private_bytes, free_bytes) if private_bytes else LEAST_GDBS
        for _ in range(self.most):
            self._wake()

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
