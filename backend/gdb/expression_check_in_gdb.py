"""Check of an expression at a place that no rank has reached; runs inside GDB, in its Python."""

from __future__ import annotations

import json

import gdb

_ERRORS = (gdb.error, RuntimeError, ValueError)


def check(place: str, expression: str) -> None:
    """Write as JSON what GDB says of an expression at a place, and whether it knows the place.

    GDB reads the condition of a breakpoint in the scope of the breakpoint, and evaluates nothing.
    Where it does not know the place, it reads the expression where the rank is.
    """
    why, is_known = "", True
    try:
        # A breakpoint would wait for a library that defines its place.
        gdb.decode_line(place)
        probe = gdb.Breakpoint(place, internal=True)
    except _ERRORS:
        is_known = False
        probe = gdb.Breakpoint("*$pc", internal=True)
    try:
        probe.condition = expression
    except _ERRORS as error:
        why = str(error)
    finally:
        probe.delete()
    gdb.write(json.dumps({"why": why, "is_known": is_known}) + "\n")
