"""Runs inside of GDB, in its Python (3.7 or later): has GDB end as soon as its rank is free.

A GDB that has detached forgets all symbols, and at its end its Python takes itself apart, too. For
one that was forked that is the dearest part of its life, since memory that it shares with all the
others has to be copied before it can be given back (see docs/internals/performance.md).
"""

from __future__ import annotations

import os
from typing import Any

import gdb


def end_when_free() -> None:
    """Have this GDB end, without a last word, when it has let go of its last process.

    GDB tells of the end of an inferior when it has taken its breakpoints out and detached from all
    threads, and before it forgets what it knows of it (GDB 13.1 and 18.1).
    """
    gdb.events.exited.connect(_end_if_free)


def _end_if_free(event: Any) -> None:
    if not any(each.pid for each in gdb.inferiors() if each.num != event.inferior.num):
        os._exit(0)


def main() -> None:
    """Do nothing yet; :func:`end_when_free` is called by its name."""
