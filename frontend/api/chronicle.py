"""The last events and the end of the output of a session, kept for its report."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import msgspec

from pgdb.frontend.api.notifications import JobOutput, Notification, Starting

MOST_EVENTS = 1000
"""Most notifications that are kept."""
MOST_BYTES = 64 << 10
"""Most bytes of each stream of the job's output that are kept."""


class TimedNotification(msgspec.Struct, frozen=True):
    """A notification and its time."""

    time_s: float
    """Unix time in seconds."""
    notification: Notification


class Tail:
    """The end of a stream of bytes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self.dropped_bytes = 0
        """Number of bytes before those that are kept."""

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        if len(data) > self._most_bytes:
            self.dropped_bytes += self._size + len(data) - self._most_bytes
            data = data[-self._most_bytes :]
            self._pieces.clear()
            self._size = 0
        self._pieces.append(data)
        self._size += len(data)
        while self._size > self._most_bytes:
            first = self._pieces.popleft()
            left = first[self._size - self._most_bytes :]
            self.dropped_bytes += len(first) - len(left)
            self._size -= len(first) - len(left)
            if left:
                self._pieces.appendleft(left)

    @property
    def data(self) -> bytes:
        """The bytes that are kept."""
        return b"".join(self._pieces)


class Chronicle:
    """Record of the reports of a session."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.begun_s = clock()
        """Unix time at which the session began, in seconds."""
        self.events: deque[TimedNotification] = deque(maxlen=MOST_EVENTS)
        self.dropped = 0
        """Number of notifications before those that are kept."""
        self.output: dict[str, Tail] = {}
        """The end of the job's output by stream."""

    def on_notification(self, notification: Notification) -> None:
        """Keep a notification."""
        if isinstance(notification, Starting):
            return
        if isinstance(notification, JobOutput):
            self.output.setdefault(notification.stream, Tail()).add(notification.data)
            return
        self.dropped += len(self.events) == MOST_EVENTS
        self.events.append(TimedNotification(self._clock(), notification))
