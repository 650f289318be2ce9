"""Breakpoints as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from pgdb.patterns import pattern
from pgdb.ranks import RankSet
from pgdb.records import Breakpoint, BreakpointList, Location


def breakpoint_made(made: Breakpoint) -> str:
    """Return the message about a new breakpoint."""
    if made.kind.endswith("watchpoint"):
        return f"{_WATCHPOINTS.get(made.kind, 'Watchpoint')} {made.number}: {made.what}"
    if made.kind == "catchpoint":
        # GDB says so of exceptions only.
        is_ada = " Ada " in made.what
        is_exception = is_ada or made.what.startswith("exception ")
        is_temporary = made.disposition == "del" and is_exception
        word = "Temporary catchpoint" if is_temporary else "Catchpoint"
        event = _event(made)
        return f"{word} {made.number}: {event}" if is_ada else f"{word} {made.number} ({event})"
    word = "Temporary breakpoint" if made.disposition == "del" else "Breakpoint"
    if made.kind == "dprintf":
        word = "Dprintf"
    if made.kind.endswith("tracepoint"):
        word = f"{made.kind[:1].upper()}{made.kind[1:]}"
    if made.kind == "hw breakpoint":
        word = "Hardware assisted breakpoint"
    if not made.location_count:
        return f"{word} {made.number} ({made.original}) pending."
    location = _location(made)
    place = f"file {made.file}, line {made.line}." if made.line else f"{location}."
    if made.location_count > 1:
        place = f"{location}. ({made.location_count} locations)"
    return f"{word} {made.number}: {place}"


_WATCHPOINTS = {
    "hw watchpoint": "Hardware watchpoint",
    "read watchpoint": "Hardware read watchpoint",
    "acc watchpoint": "Hardware access (read/write) watchpoint",
}
_TOPIC = pattern(r"info (watch|trace|break)points(?: (.+))?\Z")
_MOST_COUNTS = 4
"""Most different numbers of hits that are listed one by one."""
_CAUGHT = {"syscall": ("syscalls", ","), "signal": ("signals", " ")}
"""Events of which GDB names several objects in quotation marks: the plural, and what GDB puts
between the objects."""
_INVALID = "(*): Breakpoint condition is invalid at this location."


def breakpoint_table(breakpoints: Sequence[Breakpoint], command: str = "") -> str:
    """Return the table of ``info breakpoints`` or another *command* of that kind."""
    return merged_table([(RankSet(), BreakpointList(tuple(breakpoints)))], command)


def merged_table(
    classes: Sequence[tuple[RankSet, BreakpointList]],
    command: str,
    brackets: Callable[[RankSet], str] = str,
) -> str:
    """Return one table for the breakpoints of all classes.

    A breakpoint that other ranks do not have, or not so, is followed by its ranks. So are the
    numbers of hits where they differ.
    """
    everyone = RankSet.union(ranks for ranks, _ in classes)
    rows: dict[Breakpoint, list[tuple[RankSet, Breakpoint]]] = {}
    for ranks, listed in classes:
        for each in listed.breakpoints:
            rows.setdefault(replace(each, times=0, ignore=0), []).append((ranks, each))
    if not rows:
        return _none(command)
    lines = [f"{'Num':<7} {'Type':<14} {'Disp':<4} {'Enb':<3} What"]
    for row in sorted(rows, key=lambda row: (row.number, next(iter(rows[row][0][0]), 0))):
        owners = RankSet.union(ranks for ranks, _ in rows[row])
        lines += _row(row, "" if owners == everyone else brackets(owners), rows[row], brackets)
    if any(place.condition_is_invalid for row in rows for place in row.locations):
        lines.append(_INVALID)
    return "\n".join(lines)


def _row(
    row: Breakpoint,
    owners: str,
    parts: Sequence[tuple[RankSet, Breakpoint]],
    brackets: Callable[[RankSet], str],
) -> Iterator[str]:
    """Yield the lines of one breakpoint."""
    what = "" if row.locations else _what(row)
    enabled = "y" if row.enabled else "n"
    first = f"{row.number:<7} {row.kind:<14} {row.disposition:<4} {enabled:<3} {what}"
    yield f"{first}  {owners}".rstrip()
    yield from _details(row, _counts(parts, "times", brackets), _counts(parts, "ignore", brackets))
    for place in row.locations:
        number = f"{row.number}.{place.number}"
        enabled = "N*" if place.condition_is_invalid else "n"
        if place.enabled:
            enabled = "y" if row.enabled else "y-"  # as GDB 13 has it
        where = _place(place.function, place.file, place.line) or place.at
        yield f"{number:<7} {'':<14} {'':<4} {enabled:<3} {where}".rstrip()
        yield from _installed(place)


def _counts(
    parts: Sequence[tuple[RankSet, Breakpoint]], field: str, brackets: Callable[[RankSet], str]
) -> list[tuple[str, str]]:
    """Return the different counts, each with its ranks unless there is only one; none for 0."""
    found: dict[int, RankSet] = {}
    for ranks, each in parts:
        count = getattr(each, field)
        found[count] = found.get(count, RankSet()) | ranks
    if set(found) == {0}:
        return []
    if len(found) > _MOST_COUNTS:
        return [(f"{min(found)} to {max(found)}", "")]
    if len(found) == 1:
        return [(str(count), "") for count in found]
    return [(str(count), f" {brackets(found[count])}") for count in sorted(found)]


def _none(command: str) -> str:
    """Return the text for no breakpoints, in GDB's words."""
    match = _TOPIC.match(command)
    kind = {"watch": "watchpoint", "trace": "tracepoint"}.get(match[1] if match else "")
    if match is not None and match[2]:
        return f"No {kind or 'breakpoint or watchpoint'} matching '{match[2]}'."
    return f"No {kind}s." if kind else "No breakpoints or watchpoints."


def _details(
    each: Breakpoint, hits: Sequence[tuple[str, str]], ignored: Sequence[tuple[str, str]]
) -> Iterator[str]:
    """Yield the lines below a breakpoint, in GDB's order and words."""
    if each.matching:
        yield f"\tmatching: {each.matching}"
    if each.condition:
        yield f"\tstop only if {each.condition}"
    if each.options:
        yield f"\t{each.options}"
    if each.thread:
        yield f"\tstop only in thread {each.thread}"
    if each.task:
        yield f"\tstop only in task {each.task}"
    if hits:
        counts = (f"{count} time{'s'[: count != '1']}{ranks}" for count, ranks in hits)
        yield f"\tbreakpoint already hit {', '.join(counts)}"
    if ignored:
        yield f"\tignore next {', '.join(f'{count} hits{ranks}' for count, ranks in ignored)}"
    if each.disable_after > 1:
        more = "additional" if ignored else "next"
        yield f"\tdisable after {more} {each.disable_after} hits"
    for line in each.commands:
        yield f"        {line}"
    if each.passes:
        yield f"\tpass count {each.passes}"
    yield from _installed(each)


def _installed(each: Breakpoint | Location) -> Iterator[str]:
    """Yield the line of GDB that says whether the target has a tracepoint."""
    if each.installed is not None:
        yield f"\t{'' if each.installed else 'not '}installed on target"


def _what(each: Breakpoint) -> str:
    if each.kind == "catchpoint":
        return _caught(each)
    if not each.location_count:
        # One at Python code has the reason behind its place.
        is_reason = each.what.startswith(f"{each.original} (")
        return f"<PENDING>  {each.what if is_reason else each.original}"
    return _place(each.function, each.file, each.line) or each.what or _location(each)


def _caught(each: Breakpoint) -> str:
    """Return the event of a catchpoint, as GDB lists it."""
    if each.event in _CAUGHT and each.what:
        return f'{_caught_kind(each)} "{each.what}"'
    if each.event == "exec" and each.what != "exec":
        return f'exec, program "{each.what}"'
    return each.what


def _caught_kind(each: Breakpoint) -> str:
    """Return the kind of what is caught, in the plural for several objects."""
    plural, between = _CAUGHT[each.event]
    is_one = each.what.startswith("<") or between not in each.what
    return each.event if is_one else plural


def _event(made: Breakpoint) -> str:
    """Return the event of a new catchpoint, as GDB names it."""
    if made.event in _CAUGHT and made.what and not made.what.startswith("<"):
        between = _CAUGHT[made.event][1]
        names = [name.strip() for name in made.what.split(between)]
        if made.event == "signal":
            return f"{_caught_kind(made)} {' '.join(names)}"
        return f"{_caught_kind(made)} {', '.join(map(repr, names))}"
    return made.what.removeprefix("exception ").partition(" of library")[0].strip("<>")


def _place(function: str, file: str, line: int) -> str:
    inside = f"in {function} " if function else ""
    if not line:
        return ""
    return f"{inside}at {file}:{line}" if inside else f"{file}:{line}"


def _location(each: Breakpoint) -> str:
    """Return the place of a breakpoint without a line: the symbol of an address, as GDB does."""
    return each.at if each.at and each.original.startswith("*") else each.original
