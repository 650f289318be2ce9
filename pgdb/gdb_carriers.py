"""GDB commands that carry out another command, such as ``thread apply``. No I/O."""

from __future__ import annotations

import re

from pgdb.patterns import pattern


def abbreviations(word: str, least: int) -> str:
    """Return the pattern of a word and its abbreviations of at least *least* letters."""
    return f"(?:{'|'.join(re.escape(word[:size]) for size in range(len(word), least - 1, -1))})"


_OPTIONS = r"(?:-p\S+\s+(?:(?:on|off|yes|no|enable|disable|[01])\s+)?|-\S+\s+)*"
"""Of them only ``-past-main`` and ``-past-entry`` take a value."""
_NUMBERS = r"(?:(?:-\s*)?[\d$*]\S*\s+)+"
"""Threads or levels of frames, and ranges of them; no command begins so."""
_ALL = rf"{abbreviations('all', 1)}\s+"
_UP_TO_DASHES = r"[^\n]*?--\s*"
BEFORE_COMMAND = {
    "thread": rf"{abbreviations('apply', 1)}\s+(?:{_ALL}|{_NUMBERS}){_OPTIONS}",
    "frame": (
        rf"{abbreviations('apply', 2)}\s+"
        rf"(?:{_ALL}|{abbreviations('level', 1)}\s+{_NUMBERS}|-?[\d$]\S*\s+){_OPTIONS}"
    ),
    "taas": _OPTIONS,
    "tfaas": _OPTIONS,
    "faas": _OPTIONS,
    "with": _UP_TO_DASHES,
    "maintenance": rf"{abbreviations('with', 1)}\s+{_UP_TO_DASHES}",
}
"""Patterns of the text between the word and the command that it carries out, by the word."""
_SPELLINGS = {
    "thread": rf"{abbreviations('thread', 3)}|t",
    "frame": rf"{abbreviations('frame', 2)}|f",
    "taas": abbreviations("taas", 3),
    "tfaas": abbreviations("tfaas", 3),
    "faas": abbreviations("faas", 2),
    "with": rf"{abbreviations('with', 3)}|w",
    "maintenance": rf"{abbreviations('maintenance', 2)}|mt",
}
_ANY = "|".join(rf"(?:{_SPELLINGS[word]})\s+{before}" for word, before in BEFORE_COMMAND.items())
_CARRIER = pattern(rf"\s*(?:{_ANY})")
_IS_TWO = pattern(rf"\s*{_SPELLINGS['tfaas']}\s")


def innermost_at(command: str) -> int:
    """Return where the command begins that GDB carries out in the end.

    >>> innermost_at("p 1"), innermost_at("with width 0 -- thread apply 1 2 -q p 1")
    (0, 36)
    """
    return _starts(command)[-1]


def levels(command: str) -> int:
    """Return how many commands carry out another one; ``tfaas`` carries out ``faas``.

    >>> levels("p 1"), levels("thread apply 1 frame apply 1 p 1"), levels("tfaas -q p 1")
    (0, 2, 2)
    """
    starts = _starts(command)
    return len(starts) - 1 + sum(_IS_TWO.match(command, start) is not None for start in starts[:-1])


def _starts(command: str) -> list[int]:
    """Return where each command begins, the innermost one last."""
    starts = [0]
    while (carrier := _CARRIER.match(command, starts[-1])) is not None:
        starts.append(carrier.end())
    return starts
