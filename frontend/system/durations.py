"""Numbers of seconds as users write them: one rule for options, settings and commands."""

from __future__ import annotations

from pgdb.errors import UsageError

LEAST_S = 0.001
"""Minimum duration, in seconds; no request can finish in less."""
MOST_S = 1e9
"""Maximum duration, in seconds, some 30 years; a larger number is a mistake."""


def is_time(seconds: float, *, least: bool = False) -> bool:
    """Return whether a number is a valid duration; 0 is valid if *least* is set."""
    return (LEAST_S <= seconds <= MOST_S) or (least and seconds == 0)


def seconds(text: str, what: str, *, least: bool = False) -> float:
    """Parse a number of seconds; *what* names its use in the error.

    :raises UsageError: if the text is no number, or no valid duration.
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
    """Return the text of the valid durations."""
    start = "0, or " if least else ""
    return f"{start}{LEAST_S:g} s to {MOST_S:.0e} s".replace("e+0", "e")
