"""Parts of all our pretty-printers; runs inside GDB, in its Python (3.7 or later)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import gdb

UNLIMITED = (1 << 32) - 1
"""GDB's number for no limit."""


def register(look_up: Callable[[gdb.Value], Any], name: str) -> None:
    """Register a function that returns the printer of a value, or None.

    A GDB that cannot say how values are printed has none of our printers.

    :param name: its name for "info pretty-printer", behind "pgdb-".
    """
    if not hasattr(gdb, "print_options"):
        return
    try:
        look_up.name = f"pgdb-{name}"  # type: ignore[attr-defined]
        gdb.pretty_printers.append(look_up)
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: the printer {name} is not registered: {error}\n")


def is_left_out(options: dict[str, Any]) -> bool:
    """Return whether GDB lists arguments of frames, or PGDB does, with a depth of 0."""
    return bool(options.get("summary")) or options.get("max_depth") == 0


def options_for_parts(levels: int = 1) -> dict[str, Any] | None:
    """Return the options with which the parts of a value are printed now.

    The result is None if the value is left out: GDB lists arguments of frames.

    :param levels: levels that the value is above its parts; 0 for a reference.
    """
    options = dict(gdb.print_options())
    if is_left_out(options):
        return None
    for name in ("max_elements", "repeat_threshold"):
        if options.get(name) == UNLIMITED:
            options[name] = 0
    depth = options.get("max_depth", UNLIMITED)
    options["max_depth"] = -1 if depth == UNLIMITED else max(0, depth - levels)
    return options


def is_in_fortran() -> bool:
    """Return whether values are written, and expressions read, as in Fortran."""
    # A command that a printer executes makes GDB 18.1 lose the text before the value ("$1 = ").
    if hasattr(gdb, "current_language"):  # GDB 14
        return str(gdb.current_language()) == "fortran"
    return "fortran" in gdb.execute("show language", to_string=True)
