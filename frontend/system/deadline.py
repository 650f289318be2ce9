"""The time limit of a command, shared by all its requests.

The limit belongs to the command (a context variable), not to the session, so that it does not limit
other requests of the session. Work that must outlive its command starts under :func:`unlimited`.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextvars import ContextVar

import msgspec

from pgdb.errors import UsageError


class Deadline(msgspec.Struct):
    """The time limit of one command."""

    at_s: float
    """End, in seconds of the monotonic clock."""
    for_stops: bool
    """Whether the limit also applies to waiting for ranks that run."""
    timeout_s: float
    """The whole limit, in seconds."""


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def _checked(timeout_s: float) -> float:
    """Return a time limit that is a number of seconds.

    :raises UsageError: if it is none: it comes from a user's program.
    """
    try:
        seconds = float(timeout_s)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if math.isnan(seconds):
        raise UsageError(f"timeout_s={timeout_s!r} is no number of seconds")
    return seconds


@contextlib.contextmanager
def within(timeout_s: float | None, *, for_stops: bool = True) -> Iterator[None]:
    """Limit everything awaited inside to *timeout_s* together; a shorter outer limit stays; None
    keeps the outer limit.

    A limit *for_stops* replaces an outer limit that applies to answers only.
    """
    outer = _current.get()
    if timeout_s is None:
        yield
        return
    timeout_s = _checked(timeout_s)
    made = Deadline(time.monotonic() + timeout_s, for_stops, timeout_s)
    if outer is not None and outer.for_stops >= for_stops and outer.at_s < made.at_s:
        made = outer
    with _set(made):
        yield


@contextlib.contextmanager
def renewed() -> Iterator[None]:
    """Restart the limit inside, if it applies to answers only."""
    outer = _current.get()
    if outer is None or outer.for_stops:
        yield
        return
    with _set(Deadline(time.monotonic() + outer.timeout_s, outer.for_stops, outer.timeout_s)):
        yield


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Exclude the time inside from the limit, while the user answers a question."""
    current, begun_s = _current.get(), time.monotonic()
    try:
        yield
    finally:
        if current is not None:
            current.at_s += time.monotonic() - begun_s


@contextlib.contextmanager
def unlimited() -> Iterator[None]:
    """Remove the limit inside, for work that continues after the command."""
    with _set(None):
        yield


@contextlib.contextmanager
def _set(deadline: Deadline | None) -> Iterator[None]:
    token = _current.set(deadline)
    try:
        yield
    finally:
        _current.reset(token)


def is_given() -> bool:
    """Return whether the current command has a limit."""
    return _current.get() is not None


def left_s() -> float:
    """Return the remaining time in seconds, at least 0; infinity without a limit."""
    current = _current.get()
    return math.inf if current is None else max(0.0, current.at_s - time.monotonic())


def is_over() -> bool:
    """Return whether a limit that applies to stops has passed."""
    current = _current.get()
    return current is not None and current.for_stops and left_s() <= 0


def answers_s(default_s: float, timeout_s: float | None = None) -> float:
    """Return the wait for answers in seconds: *timeout_s*, the limit, or *default_s*."""
    left = left_s()
    if timeout_s is not None:
        return min(_checked(timeout_s), left)
    return left if is_given() else default_s


def stops_s(timeout_s: float | None) -> float | None:
    """Return the wait for ranks that run in seconds; None for no limit."""
    timeout_s = None if timeout_s is None else _checked(timeout_s)
    current = _current.get()
    if current is None or not current.for_stops:
        return timeout_s
    return left_s() if timeout_s is None else min(timeout_s, left_s())
