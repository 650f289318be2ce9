"""What the dynamic linker of a process has done: where the program is, what else it has loaded.

Read from the process's memory through /proc, without stopping it.
"""

from __future__ import annotations

import os
import struct
import sys
from dataclasses import dataclass
from typing import Literal

from pgdb import elf

_AT_PHDR, _AT_PHNUM = 3, 5
_ORDER: Literal["<", ">"] = "<" if sys.byteorder == "little" else ">"
_PT_PHDR = 6
_ENTRY_BYTES = 56


@dataclass(frozen=True, slots=True)
class Linked:
    """A program of 64 bits as it lies in memory."""

    bias: int
    """What is added to an address of the program's file."""
    names: tuple[str, ...]
    """Names by which the linker knows the shared objects that it has loaded, itself included."""


def linked(pid: int) -> Linked:
    """Return what the dynamic linker of process *pid* has loaded.

    :raises OSError: if it has ended, its memory may not be read, or there is no such program in it.
    """
    with open(f"/proc/{pid}/auxv", "rb") as file:
        auxv = file.read()
    pairs = dict(struct.iter_unpack("=2Q", auxv[: len(auxv) // 16 * 16]))
    table, count = pairs.get(_AT_PHDR, 0), pairs.get(_AT_PHNUM, 0)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:

        def read(address: int, size_bytes: int) -> bytes:
            try:
                return os.pread(memory.fileno(), size_bytes, address)
            except (OSError, OverflowError, ValueError):
                return b""

        if not 0 < count < elf.MAX_ENTRIES:
            raise OSError(f"process {pid} has no program of 64 bits")
        head = elf.Header(_ORDER, True, 0, _ENTRY_BYTES, count, 0, 0, 0, 0)
        own = next(
            (each for each in elf.segments(head, read(table, _ENTRY_BYTES * count))
             if each.kind == _PT_PHDR), None)  # fmt: skip
        if own is None:
            raise OSError(f"process {pid} has no program with a dynamic linker")
        interpreter, loaded = elf.link_map(read, table, count, is_64=True, order=_ORDER)
    names = (interpreter, *(each.name for each in loaded))
    return Linked(
        bias=table - own.address,
        # The kernel's own object has a name that is no file's.
        names=tuple(dict.fromkeys(name for name in names if name.startswith("/"))),
    )
