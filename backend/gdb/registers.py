"""Addresses in registers, read in the same way in every language.

A frame without debug information keeps the language of the one before it. ``(long)$sp`` is an error
in Fortran, where a program has no such type, and in Rust, Ada and Go.
"""

from __future__ import annotations

from pgdb.backend.gdb.mi import Result
from pgdb.patterns import pattern

_ADDRESS = pattern(r"0x[0-9a-f]+")


def stack_pointer(thread: str, level: int) -> str:
    """Return the command that asks for the stack pointer of a frame."""
    return f"-data-evaluate-expression --thread {thread} --frame {level} $sp"


def address_in(result: Result) -> int:
    """Return the address that a register has; 0 if GDB does not know it."""
    found = _ADDRESS.search(str(result.payload.get("value", "")))
    return int(found[0], 16) if found else 0
