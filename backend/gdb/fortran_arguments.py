"""Whole arguments of frames of Fortran, each listed while its frame is selected.

GDB 13.1 takes the bounds of an array from the selected frame, whichever frame the array belongs to,
and prints arrays with nonsensical bounds for ever. So each frame is selected, and its bounds are
looked at first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pgdb.backend.gdb import decode, queries, unset_bounds
from pgdb.backend.gdb.mi import Result
from pgdb.backend.gdb.session import GdbSession
from pgdb.records import Frame, Stack, Variable, Variables

_MOST_FRAMES = 63
"""Level of the outermost frame that is looked at."""


async def whole_arguments(
    gdb: GdbSession, frames: Sequence[Frame]
) -> Mapping[int, tuple[Variable, ...]]:
    """Return the arguments of each level of the selected thread; the selected frame stays so.

    :raises GdbError: if GDB ends.
    """
    selected = await gdb.send("-stack-info-frame")
    found: dict[int, tuple[Variable, ...]] = {}
    try:
        for frame in frames:
            if (await gdb.send(f"-stack-select-frame {frame.level}")).kind != "done":
                continue
            listed = None
            if decode.is_of_fortran(frame):
                listed = await unset_bounds.variables(gdb, "arguments")
            if listed is None:
                listed = await queries.variables(gdb, "arguments")
            if isinstance(listed, Variables) and listed.items:
                found[frame.level] = tuple(replace(each, bounds="") for each in listed.items)
    finally:
        await _select_again(gdb, selected)
    return found


async def with_whole_arguments(gdb: GdbSession, selected: Stack) -> Stack:
    """Return the answer of ``frame``, ``up`` or ``down`` with whole arguments.

    :raises GdbError: if GDB ends.
    """
    (frame,) = selected.frames
    level = int(selected.hidden or 0)
    own = replace(frame, level=level)
    (whole,) = decode.with_arguments([own], await whole_arguments(gdb, [own]), whole=True)
    return replace(selected, frames=(decode.at_level(whole, frame.level),))


async def unset_variables(gdb: GdbSession) -> str:
    """Return the variables of Fortran of a stack whose bounds are not set, or nothing.

    :raises GdbError: if GDB ends.
    """
    selected = await gdb.send("-stack-info-frame")
    frames, _ = decode.frames_of((await gdb.send(f"-stack-list-frames 0 {_MOST_FRAMES}")).line)
    try:
        for frame in filter(decode.is_of_fortran, frames):
            await gdb.send(f"-stack-select-frame {frame.level}")
            listed = await gdb.send("-stack-list-variables 0")
            names = [str(each.get("name")) for each in listed.payload.get("variables", ())]
            if unset := await unset_bounds.unset_arrays(gdb, names):
                return f"{', '.join(unset)} in #{frame.level} {frame.function}"
    finally:
        await _select_again(gdb, selected)
    return ""


def about(command: str, unset: str) -> str:
    """Return why a command is not carried out; *unset* is the result of :func:`unset_variables`."""
    return (
        f"'{command}' would print {unset}, whose bounds are not set yet or are damaged, and GDB "
        "would not end; 'next' sets those of a procedure that was just entered; 'bt' and "
        "'info locals' show the rest"
    )


async def _select_again(gdb: GdbSession, selected: Result) -> None:
    level = selected.payload.get("frame", {}).get("level", 0)
    await gdb.send(f"-stack-select-frame {level}")
