"""Immediate end of a GDB after its last detach; runs inside GDB, in its Python (3.7 or later).

A GDB that has detached frees all symbols, and at its end finalizes its Python. For a forked GDB
that is the most expensive part of its life, since memory shared with all the others must be copied
before it can be freed (see docs/internals/performance.md).
"""

from __future__ import annotations

import os
from typing import Any

import gdb


def end_when_free() -> None:
    """Make this GDB exit at once when it has detached from its last process.

    GDB reports the end of an inferior after it has removed its breakpoints and detached from all
    threads, and before it frees the inferior's data (GDB 13.1 and 18.1).
    """
    gdb.events.exited.connect(_end_if_free)


def _end_if_free(event: Any) -> None:
    if not any(each.pid for each in gdb.inferiors() if each.num != event.inferior.num):
        os._exit(0)
