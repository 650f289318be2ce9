"""Parts of all our pretty-printers; runs inside GDB, in its Python (3.7 or later)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import gdb

PREFIX = "pgdb-"
"""Beginning of the names of all that PGDB registers."""
UNLIMITED = (1 << 32) - 1
"""GDB's number for no limit."""


class HidingList(list):  # type: ignore[type-arg]
    """A list of GDB's in which GDB looks up all items, and which shows those that are not PGDB's.

    GDB itself reads the items of a list. Its commands, such as ``info pretty-printer`` and
    ``disable pretty-printer``, are in Python, and iterate.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__(items)
        self.unused: list[Any] = []
        """Items that are shown, and that GDB does not look up."""

    def __iter__(self) -> Iterator[Any]:
        """Return the items without PGDB's own."""
        others = [each for each in self[:] if not _is_own(each)]
        return iter([*self.unused, *others])

    def __copy__(self) -> list[Any]:
        """Return the items that are shown: GDB sorts a copy."""
        return list(iter(self))


def _is_own(item: Any) -> bool:
    return str(getattr(item, "name", "")).startswith(PREFIX)


def hide_own(name: str) -> HidingList:
    """Return a list of the ``gdb`` module, made one that hides PGDB's items."""
    found = getattr(gdb, name)
    if not isinstance(found, HidingList):
        found = HidingList(found)
        setattr(gdb, name, found)
    return found


def _checks_bounds(printer: Any) -> bool:
    """Return whether a printer is GDB's own one that checks each value for being an MPX register.

    That is a tenth of GDB's work for a stack.
    """
    if getattr(printer, "name", "") != "builtin":
        return False
    return [each.name for each in printer.subprinters or ()] == ["mpx_bound128"]


def leave_out_bounds(printers: HidingList) -> None:
    """Keep GDB from looking for MPX registers where the processor has none."""
    for each in printers[:]:
        if _checks_bounds(each):
            with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
                has_bounds = " mpx " in file.read(8192)
            if not has_bounds:
                printers.remove(each)
                printers.unused.append(each)


def register(look_up: Callable[[gdb.Value], Any], name: str) -> None:
    """Register a function that returns the printer of a value, or None.

    A GDB that cannot say how values are printed has none of our printers.

    :param name: its name, behind "pgdb-".
    """
    if not hasattr(gdb, "print_options"):
        return
    try:
        look_up.name = f"{PREFIX}{name}"  # type: ignore[attr-defined]
        printers = hide_own("pretty_printers")
        leave_out_bounds(printers)
        printers.append(look_up)
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
