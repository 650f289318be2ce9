"""Breakpoints as text."""

from __future__ import annotations

from collections.abc import Sequence

from pgdb.records import (
    Breakpoint,
)


def breakpoint_made(made: Breakpoint) -> str:
    """Return the message about a new breakpoint."""
    if made.kind.endswith("watchpoint"):
        return f"{made.kind[:1].upper()}{made.kind[1:]} {made.number}: {made.what}".replace(
            "Hw ", "Hardware "
        )
    if made.kind == "catchpoint":
        return f"Catchpoint {made.number} {made.what}".rstrip()
    word = "Temporary breakpoint" if made.disposition == "del" else "Breakpoint"
    if made.kind == "dprintf":
        word = "Dprintf"
    if not made.location_count:
        return f"{word} {made.number} ({made.original}) pending."
    location = _location(made)
    place = f"file {made.file}, line {made.line}." if made.line else f"{location}."
    if made.location_count > 1 and not made.line:
        place = f"{location} ({made.location_count} locations)."
    return f"{word} {made.number}: {place}"


def breakpoint_table(breakpoints: Sequence[Breakpoint]) -> str:
    """Return the table of ``info breakpoints``."""
    if not breakpoints:
        return "No breakpoints or watchpoints."
    lines = [f"{'Num':<7} {'Type':<14} {'Disp':<4} {'Enb':<3} What"]
    for each in breakpoints:
        what = each.what
        if each.line:
            inside = f"in {each.function} " if each.function else ""
            what = f"{inside}at {each.file}:{each.line}"
        elif not what:
            what = _location(each)
        enabled = "y" if each.enabled else "n"
        lines.append(
            f"{each.number:<7} {each.kind:<14} {each.disposition:<4} {enabled:<3} {what}".rstrip()
        )
        if each.condition:
            lines.append(f"\tstop only if {each.condition}")
        if each.times:
            lines.append(f"\tbreakpoint already hit {each.times} time{'s'[: each.times != 1]}")
        if each.ignore:
            lines.append(f"\tignore next {each.ignore} hits")
    return "\n".join(lines)


def _location(each: Breakpoint) -> str:
    """Return the place of a breakpoint without a line: the symbol of an address, as GDB does."""
    return each.at if each.at and each.original.startswith("*") else each.original
