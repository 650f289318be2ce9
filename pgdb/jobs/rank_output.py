"""The output of one rank, passed on by a relay of its own, so that its last part is known apart.

:mod:`pgdb.jobs.rank_watcher` loads it by its path, for ``pgdb run --output-by-rank``. The relay
(:mod:`pgdb.jobs.output_relay`) lives as long as the output does, whatever becomes of the watcher.
Its environment is empty, so that nobody takes it for a rank. It uses the standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import mmap
import os
import sys
import time
from collections.abc import Sequence
from types import ModuleType

TYPE_CHECKING = False
"""As in :mod:`typing`, whose import would take time in each rank."""
if TYPE_CHECKING:
    from typing import Any

TAIL_BYTES = 4096
"""Bytes of the end of each stream that a report has."""


class RankOutput:
    """The streams of one rank."""

    def __init__(self, channels: ModuleType, relay: ModuleType) -> None:
        """Start the relay.

        :raises OSError: if that is impossible.
        """
        self._relay = relay
        streams = list(channels.streams().values())
        ends = [channels.channel(each[0]) for each in streams]
        self._names = [channels.name_of(each) for each in streams]
        self._reported = [0] * len(streams)
        """Bytes of each stream at its last report."""
        self._targets = [(write, each) for (_, write), each in zip(ends, streams, strict=True)]
        """The writing end of each stream, and the descriptors whose place it takes."""
        shared = relay.new_memory(len(ends))
        self._memory = mmap.mmap(shared, 0)
        pairs = [f"{read}:{each[0]}" for (read, _), each in zip(ends, streams, strict=True)]
        given = {shared, *(read for read, _ in ends)}
        self._pid = _start([str(relay.__file__), str(shared), *pairs], given.union(*streams))
        for each in given:
            os.close(each)

    def take_over(self) -> None:
        """Let this process, which becomes the program, write to the relay."""
        for write, descriptors in self._targets:
            for each in descriptors:
                os.dup2(write, each)

    def news(self) -> list[str]:
        """Return name, number of bytes and tail of each stream that has grown since the last
        call."""
        found = []
        for at, (name, ring) in enumerate(zip(self._names, self._rings(), strict=True)):
            if ring.total != self._reported[at]:
                self._reported[at] = ring.total
                tail = base64.b64encode(ring.tail[-TAIL_BYTES:]).decode("ascii")
                found += [name, str(ring.total), tail]
        return found

    def wait_passed_on(self) -> None:
        """Wait until all output is passed on, or a process that is left keeps it open.

        Slurm ends all processes of a task with its first one.
        """
        drain = self._relay.Drain()
        while not drain.is_over(self._rings()):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(self._pid, os.WNOHANG)[0]:
                    return
            time.sleep(0.005)  # the relay counts in shared memory, which wakes nobody

    def _rings(self) -> list[Any]:
        return list(self._relay.rings(self._memory))


def _start(words: Sequence[str], kept: set[int]) -> int:
    """Start Python with a script, in a session of its own and with the descriptors *kept* only."""
    for each in kept:
        os.set_inheritable(each, True)
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_CLOSE, each)
        for each in _open_descriptors() - kept
        if os.get_inheritable(each)
    ]
    actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
    line = [sys.executable, "-I", "-S", *words]
    return os.posix_spawn(sys.executable, line, {}, file_actions=actions, setsid=True)


def _open_descriptors() -> set[int]:
    found = set()
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            os.fstat(int(each))
            found.add(int(each))
    return found
