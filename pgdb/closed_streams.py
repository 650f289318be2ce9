"""Standard streams that are closed when PGDB starts.

The program opens them before it imports anything else: a library that keeps a file open from its
import on, as libffi 3.5 does, would have it in the place of a stream.
"""

from __future__ import annotations

import os
import sys


def open_closed_streams() -> None:
    """Open the null device as standard input, output or error if these are closed.

    Else the next file to be opened would be one of them, and a program that we start would have
    none.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest number that is free is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or open(0, closefd=False)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", closefd=False)
