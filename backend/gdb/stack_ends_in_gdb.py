"""Reason why GDB finds no frame behind the outermost one; runs inside GDB, in its Python.

GDB says it below ``backtrace`` at its prompt, and not in the answer to ``-stack-list-frames``.
"""

from __future__ import annotations

import json

import gdb

_MOST_FRAMES = 10_000


def reason() -> None:
    """Write the reason as JSON; it is empty where a stack ends as it should."""
    gdb.write(json.dumps(_reason()) + "\n")


def _reason() -> str:
    try:
        frame = gdb.newest_frame()
        for _ in range(_MOST_FRAMES):
            older = frame.older()
            if older is None:
                why = frame.unwind_stop_reason()
                # GDB 13 lacks FRAME_UNWIND_FIRST_ERROR, which its manual has: this is the first.
                is_error = why >= gdb.FRAME_UNWIND_INNER_ID
                return str(gdb.frame_stop_reason_string(why)) if is_error else ""
            frame = older
    except gdb.error as error:
        return str(error)
    return ""
