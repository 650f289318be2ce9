"""Names for code without symbols: the object file and the address in it, such as ``app+0x1f3a``.

GDB prints ``??`` for every function that it has no symbol of, so that different functions look
alike. The name made here does not depend on where the kernel has loaded the object, so it is the
same on all ranks. Its number is the address as the object file counts it, which ``addr2line -e``,
``objdump`` and GDB itself take. It is the start of the function, as the table for exceptions and
stack traces (``.eh_frame_hdr``, which ``strip`` keeps) has it; else the program counter.

Everything is read from the process: a file may be deleted, delivered or on a slow file system.
"""

from __future__ import annotations

import os
import struct

from pgdb import elf
from pgdb.backend.gdb.rank_image import ImageOf, ProcessImage, RankImage
from pgdb.process_maps import DELETED, Mapping, MappingTable

UNNAMED = "??"
"""GDB's name for a function without a symbol."""
SIGNAL_FRAME = "<signal handler called>"
_ANONYMOUS = "[anon]"
_SHARED_MEMORY = "/dev/zero"
"""The kernel's name for the file behind memory without a file that processes share."""
_MOST_NAMES = 4096
_BITS_64 = (1 << 64) - 1
_NO_PROCESS = -1


class UnnamedCode:
    """Namer of the code of one process; keeps its mappings and its names until :meth:`forget`."""

    def __init__(self, image_of: ImageOf = ProcessImage) -> None:
        self._image_of = image_of
        self._pid = _NO_PROCESS
        self._is_fresh = False
        self._mappings = MappingTable()
        self._names: dict[tuple[int, bool], str] = {}
        self._begins: dict[str, int] = {}
        self._objects: dict[int, _Object | None] = {}

    def forget(self) -> None:
        """Forget all: objects were loaded or unloaded, or another program runs."""
        self._pid = _NO_PROCESS

    def outdate(self) -> None:
        """Read the mappings anew for the next unknown code: the program may have made it since.

        Without this call they are read once, however many frames of a damaged stack lead nowhere.
        """
        self._is_fresh = False

    def name(self, pid: int, address: int, *, is_return: bool) -> str:
        """Return a name for the code at *address* in the process *pid*.

        It is GDB's ``??`` if the mappings of the process may not be read.

        With *is_return* the address is the one to which a call returns, which may lie behind the
        end of the function that has called.
        """
        if pid != self._pid:
            self._read(pid)
        key = (address, is_return)
        found = self._names.get(key)
        if found is None:
            at = address - is_return
            mapping = self._mappings.at(at)
            if (mapping is None or not mapping.is_code) and not self._is_fresh:
                # The code may be younger than the list: made by the program, or just loaded.
                self._read(pid)
                mapping = self._mappings.at(at)
            found = self._named(address, at, mapping)
            if mapping is not None and mapping.is_code:
                if len(self._names) >= _MOST_NAMES:
                    self._names.clear()
                self._names[key] = found
        return found

    def offset(self, name: str, address: int) -> str:
        """Return the offset of *address* in the function with a name of :meth:`name`.

        It is empty for other names, and for those that have the address itself.
        """
        start = self._begins.get(name)
        return f"+{address - start}" if start is not None else ""

    def _read(self, pid: int) -> None:
        try:
            self._mappings = MappingTable(self._image_of(pid).mappings())
        except OSError:
            self._mappings = MappingTable()
        self._pid, self._is_fresh = pid, True
        self._names.clear()
        self._begins.clear()
        self._objects.clear()

    def _named(self, address: int, at: int, mapping: Mapping | None) -> str:
        if mapping is None:
            return f"{address:#x}" if self._mappings.all else UNNAMED
        path = mapping.path.removesuffix(DELETED)
        name = os.path.basename(path) if path not in ("", _SHARED_MEMORY) else _ANONYMOUS
        if not mapping.is_code and not mapping.path.startswith("/"):
            # No code, but data that was taken for a return address: it says nothing more.
            return name
        found = self._object(mapping)
        if found is None:
            return f"{name}+{address - mapping.start + mapping.offset:#x}"
        start = found.function_start(at)
        shown = address if start is None else start
        code = f"{name}+{shown - found.bias & _BITS_64:#x}"
        if start is not None:
            self._begins[code] = start
        return code

    def _object(self, mapping: Mapping) -> _Object | None:
        """Return the loaded object that the mapping is a part of, None if it is of none."""
        if mapping.start not in self._objects:
            self._objects[mapping.start] = self._find_object(mapping)
        return self._objects[mapping.start]

    def _find_object(self, mapping: Mapping) -> _Object | None:
        if not mapping.path:
            return None
        for each in reversed(self._mappings.up_to(mapping.start)):
            if each.path == mapping.path and not each.offset:
                try:
                    found = _Object(self._image_of(self._pid), each.start)
                except (elf.ElfError, OSError, struct.error):
                    continue
                # The same file may also be mapped as data.
                if found.has(mapping.start, mapping.end):
                    return found
        return None


class _Object:
    """An object file that a process has loaded.

    :raises ElfError: if there is no ELF object at *base*.
    :raises OSError: if the memory of the process may not be read.
    """

    def __init__(self, image: RankImage, base: int) -> None:
        self._image = image
        with image.opened() as memory:

            def read(offset: int, size_bytes: int) -> bytes:
                return memory(base + offset, size_bytes)

            head = elf.header(read)
            segments = tuple(elf.segments_of(head, read))
        self._order = head.order
        self._is_64 = head.is_64
        self._loaded = [each for each in segments if each.kind == elf.PT_LOAD]
        if not self._loaded:
            raise elf.ElfError("nothing is loaded")
        first = self._loaded[0]
        self.bias = base - (first.address - first.offset)
        """Distance of the addresses in the process from those in the file."""
        self._table = next((each for each in segments if each.kind == elf.PT_GNU_EH_FRAME), None)

    def has(self, start: int, end: int) -> bool:
        """Return whether a mapping holds a part of this object."""
        return any(
            self.bias + each.address < end and start < self.bias + each.address + each.size_bytes
            for each in self._loaded
        )

    def function_start(self, address: int) -> int | None:
        """Return the start of the function with *address*, None if no table has it."""
        if self._table is None:
            return None
        try:
            with self._image.opened() as read:
                table = self.bias + self._table.address
                return elf.function_start(
                    read, table, address, order=self._order, is_64=self._is_64
                )
        except OSError:
            return None
