"""The object files that a rank has mapped, read from its memory alone.

The build-id lies in the first mapped pages of an object, the linker's name for it in the link
map; so the file system that holds the files is not accessed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from pgdb import elf
from pgdb.process_maps import DELETED, Mapping, read_mappings

_AT_PHDR, _AT_PHNUM, _AT_ENTRY = 3, 5, 9


class MappedObject(msgspec.Struct, frozen=True):
    """An object file whose code a process executes."""

    path: str
    """The kernel's name for it: no part of it is a symbolic link."""
    names: tuple[str, ...]
    """The dynamic linker's names for it that differ from the path."""
    build_id: str
    """Build-id in hexadecimal; empty if the object has none."""
    range: str
    """Name of the mapping below /proc/PID/map_files."""


def mapped_objects(pid: int) -> tuple[MappedObject, ...]:
    """Return the object files that *pid* has mapped, the program first.

    :raises OSError: if the process has ended, or its memory may not be read.
    """
    mappings = _mappings(pid)
    code = {each.path for each in mappings if each.is_code}
    program = os.readlink(f"/proc/{pid}/exe").removesuffix(DELETED)
    with _memory(pid) as read:
        links = _link_map(pid, read)
        names: dict[str, dict[str, None]] = {}
        for one in links.loaded:
            at = next((each for each in mappings if each.start <= one.dynamic < each.end), None)
            if at is not None and one.name.startswith("/"):
                names.setdefault(at.path, {})[one.name] = None
        found: dict[str, MappedObject] = {}
        for each in mappings:
            if each.offset or each.path not in code or each.path in found:
                continue
            try:
                build_id = elf.build_id_in_memory(read, each.start)
            except elf.ElfError:
                continue
            others = tuple(name for name in names.get(each.path, ()) if name != each.path)
            place = f"{each.start:x}-{each.end:x}"
            found[each.path] = MappedObject(each.path, others, build_id, place)
    linker = links.interpreter
    if linker.startswith("/") and all(linker not in each.names for each in found.values()):
        _name_interpreter(found, linker)
    first = [found.pop(program)] if program in found else []
    return (*first, *found.values())


def linked(pid: int) -> tuple[str, ...]:
    """Return the dynamic linker's names for the objects that process *pid* has loaded.

    These are the shared objects, the linker included; a statically linked program has none.

    :raises OSError: if the process has ended, or its memory may not be read.
    """
    with _memory(pid) as read:
        links = _link_map(pid, read)
    if not links.interpreter:
        return ()
    names = (links.interpreter, *(each.name for each in links.loaded))
    # The name of the kernel's own object (the vDSO) is not a path.
    return tuple(dict.fromkeys(name for name in names if name.startswith("/")))


def entry_point(pid: int) -> int:
    """Return the address at which the program of *pid* starts after the dynamic linker has loaded
    it.

    :raises OSError: if the process has ended, or has no such entry.
    """
    for _, auxv in _auxv(pid):
        if entry := auxv.get(_AT_ENTRY, 0):
            return entry
    raise OSError(errno.ENODATA, "no entry point")


def _name_interpreter(found: dict[str, MappedObject], interpreter: str) -> None:
    """Add the program's name for the dynamic linker: GDB searches by that name."""
    for path, each in found.items():
        if path != interpreter and os.path.basename(path) == os.path.basename(interpreter):
            found[path] = MappedObject(path, (*each.names, interpreter), each.build_id, each.range)
            return


def _mappings(pid: int) -> list[Mapping]:
    """Return the mappings of files."""
    return [
        replace(each, path=each.path.removesuffix(DELETED))
        for each in read_mappings(pid)
        if each.path.startswith("/")
    ]


@contextlib.contextmanager
def _memory(pid: int) -> Iterator[elf.Read]:
    """Provide a reader of a process's memory; it returns nothing for unreadable addresses."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:

        def read(address: int, size_bytes: int) -> bytes:
            try:
                return os.pread(memory.fileno(), size_bytes, address)
            except (OSError, OverflowError, ValueError):
                return b""

        yield read


def _link_map(pid: int, read: elf.Read) -> elf.LinkMap:
    for is_64, pairs in _auxv(pid):
        if 0 < pairs.get(_AT_PHNUM, 0) < elf.MAX_ENTRIES:
            return elf.link_map(
                read,
                pairs[_AT_PHDR],
                pairs[_AT_PHNUM],
                is_64=is_64,
                order="<" if sys.byteorder == "little" else ">",
            )
    return elf.LinkMap()


def _auxv(pid: int) -> Iterator[tuple[bool, dict[int, int]]]:
    """Yield whether the process has 64 bits, and its auxiliary vector.

    The vector has the process's word size: ours, except for 32-bit programs.
    """
    with open(f"/proc/{pid}/auxv", "rb") as file:
        auxv = file.read()
    for form, is_64 in (("=2Q", True), ("=2I", False)):
        size = struct.calcsize(form)
        pairs = dict(struct.iter_unpack(form, auxv[: len(auxv) // size * size]))
        if _AT_PHDR in pairs:
            yield is_64, pairs
