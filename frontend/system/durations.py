"""Times as users write them: one rule for options, settings and commands."""

from __future__ import annotations

from pgdb.errors import UsageError
from pgdb.patterns import pattern

LEAST_S = 0.001
"""Minimum duration, in seconds; no request can finish in less."""
MOST_S = 1e9
"""Maximum duration, in seconds, some 30 years; a larger number is a mistake."""
_WITH_UNIT = pattern(r"(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(?P<unit>ms|s|min|m|h|d)?\Z")
_CLOCK = pattern(r"(?:(?P<days>\d+)-)?(?P<hours>\d+):(?P<minutes>\d\d):(?P<seconds>\d\d)\Z")
_UNITS_S = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def is_time(seconds: float, *, least: bool = False) -> bool:
    """Return whether a number is a valid duration; 0 is valid if *least* is set."""
    return (LEAST_S <= seconds <= MOST_S) or (least and seconds == 0)


def check(value: float, words: str, *, least: bool = False) -> None:
    """Check a number of seconds; *words* name it, and its use, in the error.

    :raises UsageError: if it is no valid duration.
    """
    if not is_time(value, least=least):
        start = "0, or " if least else ""
        valid = f"{start}{LEAST_S:g} s to {MOST_S:.0e} s".replace("e+0", "e")
        raise UsageError(f"{words} is no time; {valid} is one")


def seconds(title: str, text: str, *, least: bool = False) -> float:
    """Read a number of seconds; *title* names its use in the error.

    :raises UsageError: if the text is no number, or no valid duration.
    """
    if not text:
        raise UsageError(f"{title} needs a number of seconds")
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{title}: {text!r} is no number of seconds") from None
    check(value, f"{title}: {text!r}", least=least)
    return value


def duration(title: str, text: str, *, examples: str = "300s, 10m or 2h") -> float:
    """Read a time with a unit, or as a clock has it, in seconds.

    >>> [duration("", each) for each in ("300", "500ms", "5min", "1.5h", "01:30:00")]
    [300.0, 0.5, 300.0, 5400.0, 5400.0]

    :raises UsageError: if the text is none.
    """
    word = text.strip()
    if match := _CLOCK.match(word):
        days, hours, minutes, rest = (int(each or 0) for each in match.groups())
        value = ((days * 24 + hours) * 60 + minutes) * 60.0 + rest
    elif match := _WITH_UNIT.match(word):
        value = float(match["number"]) * _UNITS_S[match["unit"] or ""]
    else:
        raise UsageError(f"{title}: {text!r} is no duration; write for example {examples}")
    check(value, f"{title}: {text!r}")
    return value
