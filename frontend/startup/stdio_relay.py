"""A relay for standard output and error that are pipes whose reader may pause.

A pager, or a program that works between lines, reads when it wants to. A direct write to its full
pipe would block the event loop, and with it the heartbeats of all links: the ranks would count as
lost, and be detached. So a thread takes the output and keeps what the reader has not read yet.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
import threading
from collections import deque
from collections.abc import Sequence

MOST_KEPT_BYTES = 64 << 20
"""Most bytes kept for a reader that pauses; beyond them writers wait."""
_PIECE_BYTES = select.PIPE_BUF
"""Bytes that a pipe reported writable by poll(2) accepts at once."""


class Relay:
    """Relay of the data written to some descriptors to their original target."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        """Replace *descriptors*, which all lead to one pipe."""
        self._target = os.dup(descriptors[0])
        self._source, ours = os.pipe()
        os.set_blocking(self._source, False)
        for each in descriptors:
            os.dup2(ours, each)
        os.close(ours)
        self._closing, self._close = os.pipe()
        self._kept: deque[bytes] = deque()
        self._thread = threading.Thread(target=self._run, name="pgdb output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Return when all data has been written, or its reader is gone."""
        os.write(self._close, b"c")
        while self._thread.is_alive():
            self._thread.join(0.1)  # Ctrl-C comes through in between

    def _run(self) -> None:
        kept_bytes, is_closing, more_comes = 0, False, True
        try:
            while more_comes or self._kept:
                has_room = more_comes and kept_bytes < MOST_KEPT_BYTES
                poll = select.poll()
                if not is_closing:
                    poll.register(self._closing, select.POLLIN)
                if has_room:
                    poll.register(self._source, select.POLLIN)
                if self._kept:
                    poll.register(self._target, select.POLLOUT)
                # At the end only the present data counts: a child may have the pipe as well.
                found = poll.poll(0 if is_closing and has_room else None)
                ready = {descriptor for descriptor, _ in found}
                if self._source in ready:
                    data = os.read(self._source, 1 << 16)
                    more_comes = bool(data)
                    kept_bytes += len(data)
                    pieces = range(0, len(data), _PIECE_BYTES)
                    self._kept.extend(data[at : at + _PIECE_BYTES] for at in pieces)
                elif is_closing and has_room:
                    more_comes = False
                is_closing |= self._closing in ready
                if self._target in ready:
                    kept_bytes -= len(self._kept[0])
                    os.write(self._target, self._kept.popleft())
        except OSError:
            pass  # the reader is gone; the kernel reports that to the next writer
        finally:
            os.close(self._source)
            os.close(self._target)


def relay_pipes() -> tuple[Relay, ...]:
    """Relay standard output and error if they are pipes, both at once if they are one pipe."""
    pipes: dict[tuple[int, int], list[int]] = {}
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            status = os.fstat(descriptor)
            if stat.S_ISFIFO(status.st_mode):
                pipes.setdefault((status.st_dev, status.st_ino), []).append(descriptor)
    return tuple(map(Relay, pipes.values()))
