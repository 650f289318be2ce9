"""Turns in which ranks run in kernels, where several of them use one GPU.

Two cuda-gdb 13.0 that step on one GPU at once can hang: the step of one of them never ends, and its
kernel did not go on after the end of its debugger either. With an H100 that happened at the barrier
of a block in 6 of 6 tries, and in none of 6 in turns. It happens without PGDB as well, and once it
happened to two ranks that continued to a breakpoint with a condition.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from pgdb.jobs import procfs

MOST_S = 1.0
"""Time after which the next rank runs although the one before has not stopped, in seconds: a step
may lead out of the kernel, and wait there for another rank."""
CONTINUE_S = 0.3
"""The same after ``continue``, which may not stop at all."""
_CONTINUES = ("continue", "c", "fg")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class _Device:
    """A GPU, and the ranks that run on it or wait for their turn."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.is_idle = asyncio.Event()
        self._ranks = 0

    def enter(self) -> None:
        self._ranks += 1
        self.is_idle.clear()

    def leave(self) -> None:
        self._ranks -= 1
        if not self._ranks:
            self.is_idle.set()


class Turn:
    """The turn of one rank, which lasts until the rank stops; without a device it is over."""

    def __init__(self, device: _Device | None = None, most_s: float = MOST_S) -> None:
        self._device = device
        self._is_over = device is None
        if device is not None:
            asyncio.get_running_loop().call_later(most_s, self.end)

    def end(self) -> None:
        """Give the turn to the next rank; further calls do nothing."""
        if self._device is not None and not self._is_over:
            self._is_over = True
            self._device.lock.release()
            self._device.leave()

    @property
    def has_others(self) -> bool:
        """Whether other ranks still run on the GPU, or wait for their turn."""
        return self._device is not None and not self._device.is_idle.is_set()

    async def wait_for_others(self) -> None:
        """Wait, but not long, until all ranks have had their turns: equal stops are one then."""
        if self._device is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(MOST_S):
                    await self._device.is_idle.wait()


class GpuTurns:
    """The turns of the ranks of one host."""

    def __init__(self) -> None:
        self._devices: dict[str, _Device] = {}

    async def take(self, device: str, pid: int, word: str) -> Turn:
        """Wait until process *pid* may run on its GPU; return its turn.

        :param device: number of the device in that process, empty if it uses none.
        :param word: the command that sets the rank running.
        """
        if not device:
            return Turn()
        name = visible_device(device, procfs.environment(pid) or {})
        used = self._devices.setdefault(name, _Device())
        used.enter()
        try:
            await used.lock.acquire()
        except asyncio.CancelledError:
            used.leave()
            raise
        return Turn(used, CONTINUE_S if word in _CONTINUES else MOST_S)


def visible_device(device: str, environment: Mapping[str, str]) -> str:
    """Return a name for the *device* of a process that is the same in all processes of the host.

    >>> visible_device("1", {"CUDA_VISIBLE_DEVICES": "2,3"}), visible_device("1", {})
    ('3', '1')
    """
    visible = environment.get(_VISIBLE, "").split(",")
    number = int(device) if device.isdecimal() else len(visible)
    return visible[number].strip() or device if number < len(visible) else device
