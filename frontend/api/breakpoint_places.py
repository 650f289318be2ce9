"""Locations of breakpoints that mean the same place whenever they are read. No I/O.

``break``, ``break 12``, ``break +1`` and ``break *$pc`` depend on the selected frame; an address
belongs to one process alone. The journal repeats commands in other frames and in other processes,
so it keeps the place that GDB has found.
"""

from __future__ import annotations

import os

from pgdb.frontend.api import gdb_commands
from pgdb.patterns import pattern
from pgdb.records import Breakpoint

_WITH_LOCATION = frozenset("break tbreak hbreak thbreak dprintf trace ftrace".split())
_RELATIVE = pattern(r"(?:[+-]?\d+|\*.*|-l(?:i(?:n(?:e)?)?)?\s+[+-]?\d+|)\Z")
# The rest of the command behind a location.
_TAIL = pattern(r"(?:\A|\s+)(?:if\b|thread\s+\d|task\s+\d|inferior\s+\d|-force-condition\b).*\Z")
_SYMBOL = pattern(r"<(.+?)(\+\d+)?>\Z")


def with_fixed_place(line: str, made: Breakpoint) -> str:
    """Return a command that makes a breakpoint, with the place at which *made* is.

    A location that is the same in every frame and process stays as it is.
    """
    word = gdb_commands.first_word(line)
    if gdb_commands.resolve(line) not in _WITH_LOCATION:
        return line
    location, tail = _split(line[line.index(word) + len(word) :].strip(), line)
    if not _RELATIVE.match(location):
        return line
    place = place_of(made, is_address=location.startswith("*"))
    return f"{word} {place}{tail}" if place else line


def place_of(made: Breakpoint, *, is_address: bool = False) -> str:
    """Return the location of a breakpoint for GDB; empty if it is not known.

    With *is_address*, the location is an instruction, not the beginning of a line.
    """
    if symbol := _SYMBOL.match(made.at):
        if is_address or not made.line:
            name = symbol[1] if symbol[1].isidentifier() else f"'{symbol[1]}'"
            return f"*{name}{symbol[2] or ''}"
    if is_address or not made.line:
        return ""
    path, colon, _ = made.original.rpartition(":")
    # GDB adds the whole path to a line of the current file.
    return f"{path if colon and os.path.isabs(path) else made.file}:{made.line}"


def _split(argument: str, line: str) -> tuple[str, str]:
    """Return the location at the beginning of an argument, and the rest."""
    if gdb_commands.resolve(line) == "dprintf":
        location, comma, rest = argument.partition(",")
        return location.strip(), comma + rest
    match = _TAIL.search(argument)
    if match is None:
        return argument, ""
    return argument[: match.start()].strip(), f" {match[0].strip()}"
