"""Expressions of ``display`` as the user has typed them. No I/O.

GDB gets another expression for parts of Fortran variables (``fortran_elements_in_gdb.py``), and
shows it beside the value at each stop.
"""

from __future__ import annotations

import functools
import re

from pgdb.patterns import pattern

_DISPLAY = pattern(r"display(?:/\w+)?\s+(?P<expression>.*\S)", re.S)
_NUMBER = r"(?m)^(\d+:\s+(?:[yn]\s+)?(?:/\w+ )?)"
"""Text of GDB before an expression, beside its value and in ``info display``."""
_MADE = pattern(r"\s*(\d+): ")


class TypedDisplays:
    """The displayed expressions that GDB has in another form.

    >>> displays = TypedDisplays()
    >>> displays.take("display rows%id", "display $_pgdb_parts(rows, 0)")
    >>> displays.as_typed("1: $_pgdb_parts(rows, 0) = (1, 2)")
    '1: rows%id = (1, 2)'
    """

    def __init__(self) -> None:
        self._typed: dict[str, str] = {}
        self.last = 0
        """The number of GDB's last display, as far as GDB's answers show."""

    def made(self, text: str) -> None:
        """Note the answer of a ``display`` that GDB has carried out.

        >>> displays = TypedDisplays()
        >>> displays.made("4: k = 0")
        >>> displays.last
        4
        """
        match = _MADE.match(text)
        self.last = int(match[1]) if match is not None else self.last + 1

    def take(self, typed: str, sent: str) -> None:
        """Note a command of the user's, and the command that GDB gets in its place."""
        if typed == sent:
            return
        ours, own = _DISPLAY.match(sent), _DISPLAY.match(typed)
        if ours is not None and own is not None:
            self._typed[ours["expression"]] = own["expression"]

    def as_typed(self, text: str) -> str:
        """Return a text of GDB's with the expressions that the user has typed."""
        for sent, typed in self._typed.items():
            entry = re.compile(rf"{_NUMBER}{re.escape(sent)}(?= = |$)")
            text = entry.sub(functools.partial(_with, typed), text)
        return text


def _with(typed: str, match: re.Match[str]) -> str:
    return f"{match[1]}{typed}"
