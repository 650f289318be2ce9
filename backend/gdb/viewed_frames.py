"""Frames that ``frame view ADDRESS`` makes: GDB 14 and later end at address 0."""

from __future__ import annotations

import json

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.operations import Console, SelectFrame
from pgdb.patterns import pattern
from pgdb.records import Failure

_VIEW = pattern(
    r"(?:\A|\s)(?:f|fr|fra|fram|frame|sel\S*)\s+v(?:i(?:ew?)?)?\s+(?P<address>\S+)(?:\s|\Z)"
)
_ENDS = "False"
_WORDS = (
    "GDB ends with an internal error at a frame at address 0; 'frame view $sp $pc' is at a place"
)


async def why_not(gdb: GdbSession, operation: object) -> Failure | None:
    """Return the error for a command that views a frame at address 0; None for another one.

    :raises GdbError: if GDB ends.
    """
    if not isinstance(operation, Console | SelectFrame):
        return None
    view = _VIEW.search(operation.command)
    if view is None:
        return None
    # GDB 13 shows a frame without a name.
    result = await gdb.send(
        console(
            "python print(int(gdb.VERSION.split('.')[0]) < 14 "
            f"or int(gdb.parse_and_eval({json.dumps(view['address'])})) != 0)"
        )
    )
    return Failure(message=_WORDS) if result.text.strip() == _ENDS else None
