"""Commands that make a breakpoint again which another command than its own has made. No I/O.

A script, Python, a user-defined command or ``rbreak`` makes breakpoints of which only the result is
known. So the command follows from the breakpoint, as in GDB's ``save breakpoints``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgdb.frontend.api.breakpoint_places import with_fixed_place
from pgdb.overlay.messages import BreakpointCommands, ChangeBreakpoints
from pgdb.records import Breakpoint

_WATCH = {"read watchpoint": "rwatch", "acc watchpoint": "awatch"}
_AT_A_PLACE = {
    "breakpoint": "break",
    "hw breakpoint": "hbreak",
    "dprintf": "dprintf",
    "tracepoint": "trace",
    "fast tracepoint": "ftrace",
    "static tracepoint": "strace",
}
WHILE_PENDING = "with breakpoint pending on -- "
"""Beginning of a command for a breakpoint whose place is in no library yet."""
_WITH_ACTIONS = ("tracepoint", "fast tracepoint", "static tracepoint")
_ANY = ("<any syscall>", "<standard signals>")
_OF_LIBRARIES = " of library matching "
_SAME_EVENT = ("fork", "vfork", "exec", "throw", "catch", "rethrow")


def command_for(made: Breakpoint) -> str:
    """Return the GDB command that makes such a breakpoint, empty if it is not known.

    >>> command_for(Breakpoint(number=3, kind="hw watchpoint", what="total", condition="x > 1"))
    'watch total if x > 1'
    """
    word = _AT_A_PLACE.get(made.kind)
    if word is not None:
        place = made.original or (f"{made.file}:{made.line}" if made.line else made.function)
        tail = _tail(made)
        if made.kind == "dprintf":
            text = made.commands[0] if made.commands else ""
            return f"dprintf {place},{text.removeprefix('printf ')}" if text else ""
        line = f"{_temporary(made, word)} {place}{tail}"
        if not place or made.location_count:
            return with_fixed_place(line, made) if place else ""
        return f"{WHILE_PENDING}{line}"
    if made.kind.endswith("watchpoint"):
        return f"{_WATCH.get(made.kind, 'watch')} {made.what}{_tail(made)}"
    if made.kind == "catchpoint":
        event = _event(made)
        return f"{_temporary(made, 'catch')} {event}{_tail(made)}" if event else ""
    return ""


def changes_of(made: Breakpoint) -> Iterator[ChangeBreakpoints | BreakpointCommands]:
    """Yield the operations that give a new breakpoint all else that *made* has."""
    numbers = (str(made.number),)
    if made.commands and made.kind != "dprintf":
        yield BreakpointCommands(numbers=numbers, commands=made.commands)
    if made.kind == "dprintf" and made.condition:
        yield ChangeBreakpoints(command="condition", numbers=numbers, argument=made.condition)
    if made.passes:
        yield ChangeBreakpoints(command=f"passcount {made.passes}", numbers=numbers)
    if made.ignore:
        yield ChangeBreakpoints(command="ignore", numbers=numbers, argument=str(made.ignore))
    if made.disable_after > 1:
        yield ChangeBreakpoints(command=f"enable count {made.disable_after}", numbers=numbers)
    elif made.disposition == "dis":
        yield ChangeBreakpoints(command="enable once", numbers=numbers)
    if not made.enabled:
        yield ChangeBreakpoints(command="disable", numbers=numbers)
    for each in made.locations:
        if not each.enabled:
            location = (f"{made.number}.{each.number}",)
            yield ChangeBreakpoints(command="disable", numbers=location)


def _temporary(made: Breakpoint, word: str) -> str:
    if made.disposition != "del" or made.kind in _WITH_ACTIONS:
        return word
    return "thbreak" if word == "hbreak" else f"t{word}"


def _tail(made: Breakpoint) -> str:
    thread = f" thread {made.thread}" if made.thread else ""
    task = f" task {made.task}" if made.task else ""
    return f"{thread}{task}{f' if {made.condition}' if made.condition else ''}"


def _event(made: Breakpoint) -> str:
    what = made.what.strip().strip('"')
    if made.event in _SAME_EVENT:
        return made.event
    if made.event == "signal" and what == "<any signal>":
        return "signal all"
    if made.event in ("syscall", "signal"):
        # GDB lists several as "open, close".
        names = () if what in _ANY else what.replace(",", " ").split()
        return " ".join((made.event, *names))
    if made.event in ("load", "unload"):
        return f"{made.event} {what.partition(_OF_LIBRARIES)[2]}".strip()
    return ""
