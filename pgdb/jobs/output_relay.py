"""Pass a job's output on, byte for byte, and keep its last part in memory that others can read.

The front end of ``pgdb run`` starts it as ``python -I -S output_relay.py MEMORY SOURCE:TARGET…``:
descriptors of a shared file in memory, and of the ends to read and to write. It lives as long as
the output does, whatever becomes of the front end, so that no job writes into a broken pipe because
PGDB has died. It uses the standard library only.

The memory has one :class:`Ring` for each pair. The front end reads it whenever it wants to; nobody
waits for anybody. With ``--output-by-rank``, each rank has such a relay of its own, and its watcher
reads the memory.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import select
import signal
import struct
import sys
import time
from collections.abc import Sequence

RING_BYTES = 1 << 18
"""Bytes of the last output that a ring keeps."""
FOUND_BYTES = 1 << 16
"""Bytes of lines that a ring keeps although more output has followed."""
DRAIN_S = 2.0
"""Longest wait for the rest of the output after the end of those who write it, in seconds.

A process that has left the job (a daemon) can keep it open for ever; the relay then stays for it.
"""
_HEADER = struct.Struct("=qdqqqq")
_SLOT_BYTES = 64 + RING_BYTES + FOUND_BYTES
_PIECE_BYTES = 1 << 20
_READER_LEFT = (errno.EPIPE, errno.EIO)
_AROUND_BYTES = 4096
_BEFORE_BYTES = 512
MARKERS = (
    b"Sanitizer",
    b"runtime error: ",
    b"Fortran runtime error",
    b"Error allocating ",
    b"ERROR STOP",
    b"MPI_ABORT",
    b"MPI_Abort",
    b"Abort(",
    b"*** An error occurred",
    b"function was called ",
    b"Attempting to use an MPI routine",
    b"terminate called",
    b"Assertion",
)
"""Words that begin the last message of a rank; what stands around them is kept."""


class Ring:
    """The last output of one stream, in memory that two processes share.

    One process writes. A reader may get a ring while it is written, which garbles at most the
    oldest bytes of it.
    """

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self._memory = memory
        self._at = number * _SLOT_BYTES
        (
            self.total,
            self.last_s,
            self.found,
            self.lost,
            self.error,
            self.pending,
        ) = _HEADER.unpack_from(memory, self._at)

    @property
    def tail(self) -> bytes:
        """The last bytes of the output."""
        begin, end = self._at + 64, self._at + 64 + RING_BYTES
        if self.total <= RING_BYTES:
            return self._memory[begin : begin + self.total]
        at = begin + self.total % RING_BYTES
        return self._memory[at:end] + self._memory[begin:at]

    @property
    def messages(self) -> bytes:
        """The output around the markers in the whole output, from its beginning on."""
        begin = self._at + 64 + RING_BYTES
        return self._memory[begin : begin + self.found]

    @property
    def earlier_messages(self) -> bytes:
        """The messages, where the tail is not the whole output; the tail has all of them else."""
        return self.messages if self.total > RING_BYTES else b""

    @property
    def has_lost_reader(self) -> bool:
        """Whether the reader of the output has left before its end."""
        return int(self.error) == errno.EPIPE

    def add(self, data: bytes) -> None:
        """Add output."""
        begin = self._at + 64
        kept = data[-RING_BYTES:]
        at = (self.total + len(data) - len(kept)) % RING_BYTES
        first = kept[: RING_BYTES - at]
        self._memory[begin + at : begin + at + len(first)] = first
        rest = kept[len(first) :]
        self._memory[begin : begin + len(rest)] = rest
        self.total += len(data)
        self.last_s = time.monotonic()

    def keep(self, data: bytes) -> None:
        """Keep a message for good, as long as there is room."""
        begin = self._at + 64 + RING_BYTES
        kept = data[: FOUND_BYTES - self.found]
        self._memory[begin + self.found : begin + self.found + len(kept)] = kept
        self.found += len(kept)

    def publish(self) -> None:
        """Write the counters, after the data."""
        _HEADER.pack_into(
            self._memory,
            self._at,
            self.total,
            self.last_s,
            self.found,
            self.lost,
            self.error,
            self.pending,
        )


def new_memory(count: int) -> int:
    """Return the descriptor of memory for *count* rings."""
    memory = os.memfd_create("pgdb-output", os.MFD_CLOEXEC)
    os.ftruncate(memory, count * _SLOT_BYTES)
    return memory


def rings(memory: mmap.mmap) -> list[Ring]:
    """Return the rings as they are now."""
    return [Ring(memory, number) for number in range(len(memory) // _SLOT_BYTES)]


class Drain:
    """A wait for the rest of the output, until nothing has been passed on for :data:`DRAIN_S`."""

    def __init__(self) -> None:
        self._quiet_since_s = time.monotonic()
        self._total = -1

    def is_over(self, rings: Sequence[Ring]) -> bool:
        """Return whether the wait is over.

        A reader that pauses is waited for, as the writers would wait for it.
        """
        now_s, total = time.monotonic(), sum(each.total for each in rings)
        if total != self._total or any(each.pending for each in rings):
            self._quiet_since_s, self._total = now_s, total
        return now_s - self._quiet_since_s > DRAIN_S


class Stream:
    """One source and its target."""

    def __init__(self, ring: Ring, source: int, target: int) -> None:
        self.source = source
        self._target = target
        self._ring = ring
        self._rest = b""
        self._keeps = 0

    def pass_on(self) -> bool:
        """Pass on what there is; return whether more may come."""
        try:
            data = os.read(self.source, _PIECE_BYTES)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno == errno.EIO:  # the last writer of a terminal has left
                return False
            raise
        if not data:
            return False
        self._ring.pending = len(data)
        self._ring.publish()
        goes_on = self._write(data)
        self._ring.pending = 0
        self._ring.add(data)
        self._find(data)
        self._ring.publish()
        return goes_on

    def close(self) -> None:
        """Close both ends: the reader of the target learns that this was all."""
        for each in (self.source, self._target):
            with contextlib.suppress(OSError):
                os.close(each)

    def _write(self, data: bytes) -> bool:
        """Write all; return whether the target still takes something."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._target, view) :]
            except BlockingIOError:
                select.select([], [self._target], [])
            except OSError as error:
                if error.errno in _READER_LEFT:
                    self._ring.error = errno.EPIPE
                    return False  # the job gets to know it as without us
                # A full disk: a job whose output is lost is better than no job.
                self._ring.lost += len(view)
                self._ring.error = error.errno or 0
                return True
        return True

    def _find(self, data: bytes) -> None:
        """Keep the messages that begin in *data*, and a part of what follows them."""
        text = self._rest + data
        if self._keeps:
            self._ring.keep(data[: self._keeps])
            self._keeps -= min(self._keeps, len(data))
        elif found := [at for each in MARKERS if (at := text.find(each)) >= 0]:
            # Fortran names the place in the line before the message.
            first = min(found)
            begin = max(0, first - _BEFORE_BYTES)
            if begin or self._ring.total > len(text):  # not the beginning of the output
                begin = text.find(b"\n", begin, first) + 1
            kept = text[begin : begin + _AROUND_BYTES]
            self._ring.keep(kept)
            self._keeps = _AROUND_BYTES - len(kept)
        self._rest = data[-_BEFORE_BYTES:]


def main(argv: Sequence[str]) -> None:
    """Pass on all output until all sources have ended."""
    # The front end ends on these; the output of its job does not.
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(each, signal.SIG_IGN)
    memory = mmap.mmap(int(argv[1]), 0)
    streams: dict[int, Stream] = {}
    poll = select.poll()
    for number, pair in enumerate(argv[2:]):
        source, target = map(int, pair.split(":"))
        os.set_blocking(source, False)
        streams[source] = Stream(Ring(memory, number), source, target)
        poll.register(source, select.POLLIN)
    while streams:
        for descriptor, _ in poll.poll():
            if not streams[descriptor].pass_on():
                poll.unregister(descriptor)
                streams.pop(descriptor).close()


if __name__ == "__main__":
    main(sys.argv)
