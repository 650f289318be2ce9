"""The main program of Fortran, which GDB has to find for a stack to end there.

GDB looks for it in every frame. Without an index of the program, GDB 13.1 finds it only when its
file has been read, keeps that there is none, and lists the frames of the C library's start behind
it. So ranks whose GDBs had the index would differ from those whose GDBs had not.
"""

from __future__ import annotations

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession

_SYMBOLS = ("MAIN__", "MAIN_", "_QQmain")
"""The main program in the symbol tables of GNU's and Intel's, NVIDIA's and LLVM's compilers."""


def find(gdb: GdbSession) -> None:
    """Let GDB read the file of the main program, and look for that again."""
    lines = [f"with language c -- info line *{symbol}" for symbol in _SYMBOLS]
    caches = [f"maint flush {cache}-cache" for cache in ("symbol", "register")]
    gdb.ask_together(*map(console, (*lines, *caches)))
