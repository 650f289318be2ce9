"""Numbers of seconds, as users write them: one rule for options, settings and commands."""

from __future__ import annotations

from pgdb.errors import UsageError

LEAST_S = 0.001
"""In less nobody can be asked anything."""
MOST_S = 1e9
"""Longest time that can be asked for, some 30 years; what is more is a slip, or no number."""


def is_time(seconds: float, *, least: bool = False) -> bool:
    """Return whether something can be waited for so long; 0 is a time where it is the *least*."""
    return (LEAST_S <= seconds <= MOST_S) or (least and seconds == 0)


def seconds(text: str, what: str, *, least: bool = False) -> float:
    """Read a number of seconds; *what* is what it is for, in the error.

    :raises UsageError: if it is no number, or no time.
    """
    if not text:
        raise UsageError(f"{what} needs a number of seconds")
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{what}: {text!r} is no number of seconds") from None
    if not is_time(value, least=least):
        raise UsageError(f"{what}: {text!r} is no time; {in_words(least=least)} is one")
    return value


def in_words(*, least: bool = False) -> str:
    """Return which numbers of seconds are times."""
    start = "0, or " if least else ""
    return f"{start}{LEAST_S:g} s to {MOST_S:.0e} s".replace("e+0", "e")
