"""The memory of a stopped rank and the object files in it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

from pgdb import elf
from pgdb.backend.mpi_calls.instructions import Code, Instruction
from pgdb.elf import Read
from pgdb.process_maps import DELETED, Mapping, MappingTable

_PAGE = 4096
_MOST_PAGES = 1 << 14
"""Most pages of one process that are kept: damaged pointers must not make us read all of it."""
_PT_DYNAMIC = 2
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5
_DT_PLTRELSZ, _DT_RELA, _DT_RELASZ, _DT_JMPREL = 2, 7, 8, 23
_OF_IMPORTS = (6, 7)  # R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT
_MOST_SYMBOLS = 1 << 20
_MOST_STRINGS_BYTES = 1 << 26
_SYMBOL_BYTES = 24
_INTEL = "I_MPI_"
_CODE = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_DATA = (0, 1)  # STT_NOTYPE, STT_OBJECT


class Source(Protocol):
    """The mappings and the memory of a rank: of a process, or of a core file."""

    @property
    def executable(self) -> str:
        """Path of the program, empty if unknown."""

    def mappings(self) -> Sequence[Mapping]:
        """Return all mappings.

        :raises OSError: if they cannot be read.
        """

    def opened(self) -> AbstractContextManager[Read]:
        """Open the memory.

        :raises OSError: if it cannot be opened.
        """


class Memory:
    """The memory of a rank; unreadable addresses read as None."""

    def __init__(self, source: Source) -> None:
        """Open the memory.

        :raises OSError: if it may not be read.
        """
        self.source = source
        self._open = ExitStack()
        self._read = self._open.enter_context(source.opened())
        self._pages: dict[int, bytes | None] = {}

    def close(self) -> None:
        """Close the file."""
        self._open.close()

    def page(self, number: int) -> bytes | None:
        """Return the page with the addresses from 4096 x *number* on."""
        try:
            return self._pages[number]
        except KeyError:
            pass
        if len(self._pages) >= _MOST_PAGES:
            self._pages.clear()
        data = self._read(number * _PAGE, _PAGE)
        found = self._pages[number] = data if len(data) == _PAGE else None
        return found

    def some(self, address: int, size_bytes: int) -> bytes:
        """Return the bytes at an address, fewer where the memory ends."""
        pieces = []
        while size_bytes > 0:
            page = self.page(address // _PAGE) if 0 < address < 1 << 63 else None
            if page is None:
                break
            begin = address % _PAGE
            piece = page[begin : begin + size_bytes]
            pieces.append(piece)
            address += len(piece)
            size_bytes -= len(piece)
        return b"".join(pieces)

    def bytes_at(self, address: int, size_bytes: int) -> bytes | None:
        """Return all the bytes at an address, None unless all can be read."""
        found = self.some(address, size_bytes)
        return found if len(found) == size_bytes else None

    def word(self, address: int, size_bytes: int = 8) -> int | None:
        """Return an unsigned number."""
        found = self.bytes_at(address, size_bytes)
        return int.from_bytes(found, "little") if found is not None else None

    def text(self, address: int, most: int = 256) -> str:
        """Return the text that ends with a zero byte, empty if there is none."""
        found, end, _ = self.some(address, most).partition(b"\0")
        return found.decode("utf-8", "replace") if end else ""


class _Tables:
    """Tables of one object file; processes that have loaded the same file share them."""

    def __init__(self) -> None:
        self.symbols: dict[str, int] | None = None
        self.functions: dict[int, tuple[str, ...]] | None = None
        self.imports: dict[int, str] | None = None
        self.code: Code | None = None


_TABLES: dict[object, _Tables] = {}
_MOST_TABLES = 256


class Image:
    """An object file in the memory of a process. Addresses are those of the file, unless a name
    says otherwise: address in the process = address in the file + :attr:`bias`."""

    def __init__(self, memory: Memory, base: int, path: str) -> None:
        """Read the headers.

        :raises ElfError: if there is no ELF object of 64 bits at *base*.
        """
        self._memory = memory
        self.path = path

        def here(offset: int, size_bytes: int) -> bytes:
            return memory.some(base + offset, size_bytes)

        head = elf.header(here)
        if not head.is_64 or head.order != "<":
            raise elf.ElfError("not of this machine")
        self._segments = tuple(elf.segments_of(head, here))
        loaded = [each for each in self._segments if each.kind == elf.PT_LOAD]
        if not loaded:
            raise elf.ElfError("nothing is loaded")
        self.bias = base - (loaded[0].address - loaded[0].offset)
        self.end = max(each.address + each.size_bytes for each in loaded)
        self.build_id = elf.build_id_in_memory(memory.some, base)
        self._table = next((e for e in self._segments if e.kind == elf.PT_GNU_EH_FRAME), None)
        self._ranges: dict[int, tuple[int, int] | None] = {}
        self._token = object()
        self._tables: _Tables | None = None

    @property
    def key(self) -> tuple[str, object]:
        """Identity of the code: equal for the same file in other processes, if that is sure."""
        return ("build-id", self.build_id) if self.build_id else (self.path, self._token)

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return the bytes at an address of the file."""
        return self._memory.some(address + self.bias, size_bytes)

    def function(self, address: int) -> tuple[int, int] | None:
        """Return the start and the end of the function with *address*, None if no table has it."""
        if address not in self._ranges:
            self._ranges[address] = self._function(address)
        return self._ranges[address]

    def _function(self, address: int) -> tuple[int, int] | None:
        if self._table is None:
            return None
        found = elf.function_range(
            self._memory.some,
            self._table.address + self.bias,
            address + self.bias,
            order="<",
            is_64=True,
        )
        return (found[0] - self.bias, found[1] - self.bias) if found is not None else None

    @property
    def tables(self) -> _Tables:
        """The tables of the object file."""
        if self._tables is None:
            key = self.key
            if len(_TABLES) >= _MOST_TABLES and key not in _TABLES:
                _TABLES.clear()
            self._tables = _TABLES.setdefault(key, _Tables())
        return self._tables

    @property
    def symbols(self) -> dict[str, int]:
        """Addresses of the symbols that the dynamic linker knows, by name."""
        tables = self.tables
        if tables.symbols is None:
            self._read_symbols(tables)
        return tables.symbols or {}

    @property
    def functions(self) -> dict[int, tuple[str, ...]]:
        """Names of functions by their addresses."""
        tables = self.tables
        if tables.functions is None:
            self._read_symbols(tables)
        return tables.functions or {}

    @property
    def is_of_intel(self) -> bool:
        """Whether it is Intel's MPI library.

        Its compiler sees all functions at once, and lets one use a register without saving it where
        no caller needs it any longer: MPIR_Bcast of Intel MPI 2021.18 uses rbx so.
        """
        return any(each.startswith(_INTEL) for each in self.symbols)

    @property
    def code(self) -> Code:
        """The instructions."""
        tables = self.tables
        if tables.code is None:
            tables.code = Code()
        return tables.code

    def instruction(self, address: int) -> Instruction | None:
        """Return the instruction at an address of the file."""
        return self.code.at(address, self.read)

    def _read_symbols(self, tables: _Tables) -> None:
        symbols: dict[str, int] = {}
        functions: dict[int, tuple[str, ...]] = {}
        for name, value, is_code in self._symbols():
            symbols[name] = value
            if is_code:
                functions[value] = (*functions.get(value, ()), name)
        tables.symbols, tables.functions = symbols, functions

    def _symbols(self) -> Iterator[tuple[str, int, bool]]:
        tags = self._dynamic()
        if _DT_SYMTAB not in tags or _DT_STRTAB not in tags:
            return
        size = min(tags.get(_DT_STRSZ, 0), _MOST_STRINGS_BYTES)
        strings = self._memory.some(self._place(tags[_DT_STRTAB]), size)
        count = min(self._symbol_count(tags), _MOST_SYMBOLS)
        table = self._memory.some(self._place(tags[_DT_SYMTAB]), _SYMBOL_BYTES * count)
        whole = table[: len(table) // _SYMBOL_BYTES * _SYMBOL_BYTES]
        for at, info, _, section, value, _ in struct.iter_unpack("<IBBHQQ", whole):
            if section and value and (info & 15 in _CODE or info & 15 in _DATA):
                yield _name(strings, at), value, info & 15 in _CODE

    @property
    def imports(self) -> dict[int, str]:
        """Names of the symbols of other objects, by the addresses of their words in this one."""
        tables = self.tables
        if tables.imports is None:
            tables.imports = self._imports()
        return tables.imports

    def _imports(self) -> dict[int, str]:
        tags = self._dynamic()
        if _DT_SYMTAB not in tags or _DT_STRTAB not in tags:
            return {}
        size = min(tags.get(_DT_STRSZ, 0), _MOST_STRINGS_BYTES)
        strings = self._memory.some(self._place(tags[_DT_STRTAB]), size)
        symbols = self._place(tags[_DT_SYMTAB])
        found = {}
        for table, length in ((_DT_JMPREL, _DT_PLTRELSZ), (_DT_RELA, _DT_RELASZ)):
            if table not in tags:
                continue
            most = min(tags.get(length, 0), _MOST_STRINGS_BYTES)
            data = self._memory.some(self._place(tags[table]), most)
            for at, info, _ in struct.iter_unpack("<QQq", data[: len(data) // 24 * 24]):
                if info & 0xFFFFFFFF in _OF_IMPORTS and info >> 32:
                    name_at = self._memory.word(symbols + _SYMBOL_BYTES * (info >> 32), 4)
                    found[at] = _name(strings, name_at or 0)
        return found

    def _place(self, value: int) -> int:
        """Return the address in the process of an entry of the dynamic section, which the C
        library's linker has relocated, and others have not."""
        return value if value >= self.bias else value + self.bias

    def _dynamic(self) -> dict[int, int]:
        part = next((each for each in self._segments if each.kind == _PT_DYNAMIC), None)
        if part is None:
            return {}
        data = self.read(part.address, min(part.size_bytes, 1 << 16))
        found: dict[int, int] = {}
        for tag, value in struct.iter_unpack("<QQ", data[: len(data) // 16 * 16]):
            if not tag:
                break
            found.setdefault(tag, value)
        return found

    def _symbol_count(self, tags: dict[int, int]) -> int:
        if _DT_HASH in tags:
            return self._memory.word(self._place(tags[_DT_HASH]) + 4, 4) or 0
        if _DT_GNU_HASH not in tags:
            return 0
        table = self._place(tags[_DT_GNU_HASH])
        head = self._memory.bytes_at(table, 16)
        if head is None:
            return 0
        buckets, first, bloom, _ = struct.unpack("<4I", head)
        at = table + 16 + 8 * bloom
        data = self._memory.some(at, 4 * min(buckets, _MOST_SYMBOLS))
        last = max((int(each) for (each,) in struct.iter_unpack("<I", data)), default=0)
        if last < first:
            return int(first)
        chains = at + 4 * buckets
        while last < _MOST_SYMBOLS:
            word = self._memory.word(chains + 4 * (last - first), 4)
            if word is None or word & 1:
                break
            last += 1
        return int(last) + 1


def _name(strings: bytes, at: int) -> str:
    return strings[at : strings.find(b"\0", at)].decode("utf-8", "replace")


class Images:
    """The object files in the memory of a process, by address."""

    def __init__(self, memory: Memory) -> None:
        """Read the mappings.

        :raises OSError: if they may not be read.
        """
        self._memory = memory
        self._mappings = MappingTable(memory.source.mappings())
        self._known: dict[tuple[str, int], Image | None] = {}
        self._all: tuple[Image, ...] | None = None

    def mapping(self, address: int) -> Mapping | None:
        """Return the mapping with *address* of the process."""
        return self._mappings.at(address)

    def at(self, address: int) -> Image | None:
        """Return the object file that is loaded at *address* of the process."""
        mapping = self.mapping(address)
        if mapping is None or not mapping.path:
            return None
        for each in reversed(self._mappings.up_to(address)):
            if each.path != mapping.path:
                continue
            if not each.offset:
                return self._image(each.path, each.start)
        return None

    @property
    def program(self) -> Image | None:
        """The program itself."""
        path = self._memory.source.executable
        begins = (each for each in self._mappings.all if not each.offset)
        first = next((each for each in begins if each.path.removesuffix(DELETED) == path), None)
        return self._image(first.path, first.start) if first is not None else None

    def all(self) -> tuple[Image, ...]:
        """Return each loaded object file with code."""
        if self._all is None:
            code = {each.path for each in self._mappings.all if each.is_code}
            starts = [
                (each.path, each.start)
                for each in self._mappings.all
                if not each.offset and each.path in code and each.path.startswith("/")
            ]
            found = (self._image(path, start) for path, start in starts)
            self._all = tuple(each for each in found if each is not None)
        return self._all

    def _image(self, path: str, start: int) -> Image | None:
        key = (path, start)
        if key not in self._known:
            try:
                self._known[key] = Image(self._memory, start, path.removesuffix(DELETED))
            except elf.ElfError:
                self._known[key] = None
        return self._known[key]
