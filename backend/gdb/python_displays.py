"""``display py:EXPR``: values of Python among GDB's displays of one rank.

GDB counts, lists, disables and deletes displays, and prints them at stops. In the place of a value
of Python it displays a convenience variable that has no value; the text is filled in here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgdb.backend.gdb.python_parts import is_python
from pgdb.overlay.messages import Evaluate
from pgdb.patterns import pattern
from pgdb.records import Failure, Record, Value

if TYPE_CHECKING:
    from pgdb.backend.gdb.python_values import PythonValues

_VARIABLE = "$_pgdb_python_display_"
_COMMAND = pattern(r"display(?P<format>/\w+)?\s+(?P<expression>.*\S)")
_SHOWN = pattern(
    r"(?m)^(?P<number>\d+: )(?P<format>/\w+ )?\$_pgdb_python_display_(?P<at>\d+) = .*(?:\n|\Z)"
)
_NOT_HERE = ("No Python variable ", "The rank has no Python", "The selected thread has no Python")
"""Beginnings of errors that say that the selected frame lacks the variable of a display: GDB
shows no display then either."""


class PythonDisplays:
    """The displays of one GDB that show values of Python."""

    def __init__(self, values: PythonValues) -> None:
        self._values = values
        self._expressions: list[str] = []

    async def sent(self, command: str, pid: int) -> str | Failure:
        """Return what GDB gets in the place of a command; a ``display`` of Python is tried."""
        match = _COMMAND.match(command)
        if match is None or not is_python(match["expression"]):
            return command
        expression = match["expression"]
        letters = (match["format"] or "").removeprefix("/")
        value = await self._values.evaluate(pid, Evaluate(expression=expression, format=letters))
        if isinstance(value, Failure):
            return value
        if expression not in self._expressions:
            self._expressions.append(expression)
        return f"display{match['format'] or ''} {_VARIABLE}{self._expressions.index(expression)}"

    async def filled(self, text: str, pid: int) -> str:
        """Return a text of GDB's with the values of Python.

        A display whose variable the selected frame does not have is left out, as GDB does.
        """
        if _VARIABLE not in text:
            return text
        parts, end = [], 0
        for match in _SHOWN.finditer(text):
            parts.append(text[end : match.start()])
            end = match.end()
            expression = self._expressions[int(match["at"])]
            letters = (match["format"] or "").strip().removeprefix("/")
            record = await self._values.evaluate(
                pid, Evaluate(expression=expression, format=letters)
            )
            if (value := _text_of(record)) is not None:
                shown = f"{match['number']}{match['format'] or ''}{expression} = {value}"
                parts.append(shown + "\n" * match[0].endswith("\n"))
        return "".join((*parts, text[end:]))


def _text_of(record: Record) -> str | None:
    """Return the value of a display, None if it is not shown in this frame."""
    if isinstance(record, Value):
        return record.text
    if not isinstance(record, Failure):
        return None
    return None if record.message.startswith(_NOT_HERE) else f"<{record.message}>"
