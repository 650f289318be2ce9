"""The stack pointers of a thread's frames; runs inside GDB, in its Python (3.7 or later)."""

from __future__ import annotations

import json

import gdb

_MOST_FRAMES = 20_000


def describe() -> None:
    """Write the numbers of the selected thread, and the stack pointer in each of its frames."""
    thread = gdb.selected_thread()
    try:
        handle = int.from_bytes(thread.handle(), "little")
    except (RuntimeError, AttributeError):  # gdb.error is a RuntimeError
        handle = 0  # without libthread_db, or before GDB 8.3
    pointers: list[int] = []
    frame = gdb.newest_frame()
    while frame is not None and len(pointers) < _MOST_FRAMES:
        try:
            pointers.append(int(frame.read_register("sp")))
            frame = frame.older()
        except gdb.error:
            break
    found = {"lwp": thread.ptid[1], "handle": handle, "pointers": pointers}
    gdb.write(json.dumps(found) + "\n")
    gdb.flush()
