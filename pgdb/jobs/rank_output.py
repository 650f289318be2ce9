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
from types import ModuleType
from typing import Any

TAIL_BYTES = 4096
"""Bytes of the end of each stream that a report has."""
DRAIN_S = 2.0
"""Longest wait for the rest of the output after the end of the program, in seconds.

A process that has left the job can keep it open for ever; the relay then stays for it.
"""


class RankOutput:
    """The streams of one rank."""

    def __init__(self, channels: ModuleType, relay: ModuleType) -> None:
        """Start the relay.

        :raises OSError: if that is impossible.
        """
        self._relay = relay
        self._streams = list(channels.streams().values())
        self._ends = [channels.channel(each[0]) for each in self._streams]
        shared = relay.new_memory(len(self._ends))
        self._memory = mmap.mmap(shared, 0)
        self._names = [channels.name_of(each) for each in self._streams]
        self._told = [0] * len(self._names)
        pairs = [
            f"{read}:{those[0]}" for (read, _), those in zip(self._ends, self._streams, strict=True)
        ]
        kept = {shared, *(read for read, _ in self._ends)}
        kept = kept.union(*self._streams)
        for each in kept:
            os.set_inheritable(each, True)
        actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_CLOSE, each)
            for each in _open_descriptors() - kept
            if os.get_inheritable(each)
        ]
        actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
        self._pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", str(relay.__file__), str(shared), *pairs],
            {},
            file_actions=actions,
            setsid=True,
        )
        os.close(shared)
        for read, _ in self._ends:
            os.close(read)

    def take_over(self) -> None:
        """Let this process, which becomes the program, write to the relay."""
        for (_, write), descriptors in zip(self._ends, self._streams, strict=True):
            for each in descriptors:
                os.dup2(write, each)

    def news(self) -> list[str]:
        """Return name, number of bytes and tail of each stream that has grown since the last
        call."""
        found = []
        for at, (name, ring) in enumerate(zip(self._names, self._rings(), strict=True)):
            if ring.total != self._told[at]:
                self._told[at] = ring.total
                tail = base64.b64encode(ring.tail[-TAIL_BYTES:]).decode("ascii")
                found += [name, str(ring.total), tail]
        return found

    def wait_passed_on(self) -> None:
        """Wait until all output is passed on, or a process that is left keeps it open.

        Slurm ends all processes of a task with its first one.
        """
        quiet_since, before = time.monotonic(), -1
        while True:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(self._pid, os.WNOHANG)[0]:
                    return
            rings = self._rings()
            now = sum(each.total for each in rings)
            if now != before or any(each.pending for each in rings):
                quiet_since, before = time.monotonic(), now
            if time.monotonic() - quiet_since > DRAIN_S:
                return
            time.sleep(0.005)

    def _rings(self) -> list[Any]:
        return list(self._relay.rings(self._memory))


def _open_descriptors() -> set[int]:
    found = set()
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of the listing itself
            os.fstat(int(each))
            found.add(int(each))
    return found
