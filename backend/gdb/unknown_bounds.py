"""A step out of a function without symbols, which GDB refuses, and the way out.

GDB needs the bounds of the function in which a rank stands. Since version 2.41 the functions of the
C library that wait in the kernel have no symbol in a stripped library, and a rank that was attached
to mostly stands in one of them.
"""

from __future__ import annotations

from msgspec.structs import replace

from pgdb.backend.gdb.stacks import Stacks
from pgdb.records import Failure

_REFUSED = "Cannot find bounds of current function"
_FRAMES = 64


async def with_way_out(refused: Failure, stacks: Stacks, pid: int) -> Failure:
    """Return a refused step with the commands that leave the function; any other as it is.

    :raises GdbError: if GDB ends.
    """
    if not refused.message.startswith(_REFUSED):
        return refused
    # The innermost frame is the one that GDB cannot step in, whatever it knows of its source.
    frames = (await stacks.folded(pid, _FRAMES))[1:]
    known = next((each for each in frames if each.line and not each.language), None)
    if known is None:
        way_out = "'stepi', or 'break' and 'continue', move the rank"
    elif known.level == 1:
        way_out = f"'finish' returns to {known.function}"
    else:
        way_out = f"'frame {known.level - 1}' and 'finish' return to {known.function}"
    return replace(refused, message=f"{refused.message}, which has no symbols; {way_out}")
