"""The time that the user has given a command, for all that it asks together.

It goes with the command (a context variable) and not with the session: what the session asks
meanwhile for other reasons is not limited by it. Work that is to outlive its command is begun under
:func:`unlimited`.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextvars import ContextVar

import msgspec


class Deadline(msgspec.Struct):
    """When a command is to end."""

    at_s: float
    """By the clock that cannot be set."""
    for_stops: bool
    """Whether it also limits how long is waited for ranks that run."""
    timeout_s: float
    """What was given."""


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextlib.contextmanager
def within(timeout_s: float | None, *, for_stops: bool = True) -> Iterator[None]:
    """Give what is awaited inside *timeout_s* all together, less if less is left; None: no change.

    What is given *for_stops* takes the place of what is for answers alone.
    """
    outer = _current.get()
    if timeout_s is None:
        yield
        return
    made = Deadline(time.monotonic() + timeout_s, for_stops, timeout_s)
    if outer is not None and outer.for_stops >= for_stops and outer.at_s < made.at_s:
        made = outer
    with _set(made):
        yield


@contextlib.contextmanager
def renewed() -> Iterator[None]:
    """Give what is awaited inside the whole time again, where that is for answers alone."""
    outer = _current.get()
    if outer is None or outer.for_stops:
        yield
        return
    with _set(Deadline(time.monotonic() + outer.timeout_s, outer.for_stops, outer.timeout_s)):
        yield


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Let what is awaited inside not count: the user is asked something."""
    current, begun_s = _current.get(), time.monotonic()
    try:
        yield
    finally:
        if current is not None:
            current.at_s += time.monotonic() - begun_s


@contextlib.contextmanager
def unlimited() -> Iterator[None]:
    """Begin what goes on when the command is over."""
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
    """Return whether the command that is carried out has a time of its own."""
    return _current.get() is not None


def left_s() -> float:
    """Return how long is left, at least 0; infinity without a deadline."""
    current = _current.get()
    return math.inf if current is None else max(0.0, current.at_s - time.monotonic())


def is_over() -> bool:
    """Return whether nothing is left of a time that is for stops as well."""
    current = _current.get()
    return current is not None and current.for_stops and left_s() <= 0


def answers_s(default_s: float, timeout_s: float | None = None) -> float:
    """Return how long to wait for answers: *timeout_s*, what was given, or else *default_s*."""
    left = left_s()
    if timeout_s is not None:
        return min(timeout_s, left)
    return left if is_given() else default_s


def stops_s(timeout_s: float | None) -> float | None:
    """Return how long to wait for ranks that run, None for no limit."""
    current = _current.get()
    if current is None or not current.for_stops:
        return timeout_s
    return left_s() if timeout_s is None else min(timeout_s, left_s())
