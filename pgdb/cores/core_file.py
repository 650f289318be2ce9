"""The contents of one core file: its process, its program and files, its rank.

All of it is in the notes and in the memory of the core, so that neither GDB nor the program's file
is needed. core(5), and fs/binfmt_elf.c of Linux, describe the notes.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from pgdb import elf
from pgdb.errors import PgdbError
from pgdb.jobs.rank_environment import RankIdentity, rank_environment
from pgdb.process_maps import DELETED
from pgdb.regular_files import open_regular

_ET_CORE = 4
_PN_XNUM = 0xFFFF
_PT_LOAD, _PT_NOTE = 1, 4
_NT_PRSTATUS, _NT_PRPSINFO, _NT_AUXV = 1, 3, 6
_NT_FILE = 0x46494C45
_AT_PHDR, _AT_ENTRY, _AT_RANDOM, _AT_EXECFN = 3, 9, 25, 31
_MOST_SEGMENTS = 1 << 20
_MOST_NOTES_BYTES = 1 << 28
_MOST_BYTES_BELOW_RANDOM = 1 << 16
"""Distance between the bytes of AT_RANDOM and the auxiliary vector below them; the kernel puts at
most 8 KiB of padding and two short names between the two."""
_MOST_ENVIRONMENT_BYTES = 1 << 23
"""Size of all arguments and variables: the kernel allows 6 MiB (execve(2))."""

COMPRESSIONS: dict[bytes, tuple[str, tuple[str, ...]]] = {
    b"\x28\xb5\x2f\xfd": ("zstd", ("zstd", "-dcq")),
    b"\x04\x22\x4d\x18": ("lz4", ("lz4", "-dcq")),
    b"\xfd7zXZ\x00": ("xz", ("xz", "-dcq")),
    b"\x1f\x8b": ("gzip", ("gzip", "-dcq")),
    b"BZh": ("bzip2", ("bzip2", "-dcq")),
}
"""First bytes of compressed files, the name of the compression, and the program that expands it."""


class CoreFileError(PgdbError):
    """A file that is not a core file, or cannot be read as one."""


class CompressedError(CoreFileError):
    """A compressed file; :mod:`pgdb.cores.expanding` expands it."""


class MappedPart(msgspec.Struct, frozen=True):
    """A mapping of a file in the process that has died."""

    start: int
    end: int
    offset_bytes: int
    path: str


class CoreFile(msgspec.Struct, frozen=True, kw_only=True):
    """One core file."""

    path: str
    """Name of the file that a debugger reads."""
    host: str = ""
    """The host that has the file; empty for this one."""
    original: str = ""
    """Name of the compressed file that *path* was expanded from; empty for any other core."""
    program: str
    """Path of the program; empty if the core does not say."""
    is_deleted: bool = False
    """Whether the program's file had been deleted or replaced when the process died."""
    command: str = ""
    """The first 15 characters of the program's name; a process may have changed it."""
    arguments: str = ""
    """The first 80 characters of the program's line."""
    pid: int = 0
    signal: int = 0
    """Number of the signal that the process died of; 0 if it lived when the core was made."""
    identity: RankIdentity | None = None
    """The rank that the environment names; None if it names none."""
    mapped: tuple[MappedPart, ...] = ()
    build_id: str = ""
    """Build-id of the program in memory, in hexadecimal digits; empty if unknown."""
    missing_bytes: int = 0
    """Bytes that the core's own table promises and the file does not have."""
    written_s: float = 0.0
    """Time of the file's last change."""

    @property
    def name(self) -> str:
        """Name of the file as the user knows it."""
        return self.original or self.path

    @property
    def place(self) -> str:
        """Name of the file with the host that has it."""
        return f"{self.host}:{self.name}" if self.host else self.name


class CoreSegment(msgspec.Struct, frozen=True):
    """A mapping of the process, with or without its contents."""

    address: int
    memory_bytes: int
    permissions: str
    """As in /proc/PID/maps: ``rw-p``."""


class CoreMemory:
    """The memory in a core file, read at the process's addresses."""

    def __init__(self, read: elf.Read) -> None:
        """Read the program headers.

        :raises CoreFileError: if the file is not a core file.
        """
        self._read = read
        try:
            self.head = head = elf.header(read)
        except elf.ElfError:
            raise CoreFileError("is not a core file") from None
        order = head.order
        if struct.unpack(f"{order}H", read(16, 2))[0] != _ET_CORE:
            raise CoreFileError("is a program or a library, not a core file")
        count = head.segment_count
        if count == _PN_XNUM and head.sections_at:
            # The true number is in sh_info of the first section header.
            at = head.sections_at + (44 if head.is_64 else 28)
            raw = read(at, 4)
            count = struct.unpack(f"{order}I", raw)[0] if len(raw) == 4 else count
        count = min(count, _MOST_SEGMENTS)
        table = read(head.segments_at, count * head.segment_size)
        form = f"{order}IIQQQQQ" if head.is_64 else f"{order}IIIIIII"
        self.segments: list[CoreSegment] = []
        """All mappings, in the order of the file."""
        self.notes: list[tuple[int, int]] = []
        """Offset and size of each part with notes."""
        loads: list[tuple[int, int, int]] = []
        self.promised_bytes = head.segments_at + count * head.segment_size
        """Size of the whole file, from its own table."""
        for at in range(0, len(table) - struct.calcsize(form) + 1, head.segment_size or 1):
            fields = struct.unpack_from(form, table, at)
            if head.is_64:
                kind, flags, offset, address, _, size, whole = fields
            else:
                kind, offset, address, _, size, whole, flags = fields
            self.promised_bytes = max(self.promised_bytes, offset + size)
            if kind == _PT_NOTE:
                self.notes.append((offset, size))
            elif kind == _PT_LOAD:
                self.segments.append(CoreSegment(address, whole, _permissions(flags)))
                if size:
                    loads.append((address, size, offset))
        self._loads = sorted(loads)
        self._starts = [address for address, _, _ in self._loads]

    def read(self, address: int, size_bytes: int) -> bytes:
        """Return the memory at an address; fewer bytes where the core has no more."""
        parts = []
        while size_bytes > 0:
            index = bisect_right(self._starts, address) - 1
            if index < 0:
                break
            start, size, offset = self._loads[index]
            here = min(size_bytes, start + size - address)
            if here <= 0:
                break
            part = self._read(offset + address - start, here)
            parts.append(part)
            if len(part) < here:
                break
            address, size_bytes = address + here, size_bytes - here
        return b"".join(parts)

    def all_notes(self) -> Iterator[tuple[int, bytes]]:
        """Yield the kind and the contents of each note."""
        for offset, size in self.notes:
            data = self._read(offset, min(size, _MOST_NOTES_BYTES))
            at = 0
            while at + 12 <= len(data):
                name_bytes, value_bytes, kind = struct.unpack_from(
                    f"{self.head.order}III", data, at
                )
                value_at = at + 12 + (name_bytes + 3 & ~3)
                if value_at + value_bytes > len(data):
                    break
                yield kind, data[value_at : value_at + value_bytes]
                at = value_at + (value_bytes + 3 & ~3)


def _permissions(flags: int) -> str:
    letters = zip("rwx", (4, 2, 1), strict=True)
    return "".join(letter if flags & bit else "-" for letter, bit in letters) + "p"


def read_core(path: str) -> CoreFile:
    """Read one core file.

    :raises CompressedError: if it is compressed.
    :raises CoreFileError: if it is not a core file, or cannot be read.
    """
    try:
        file = open_regular(path)
    except OSError as error:
        raise CoreFileError(f"cannot be read: {error.strerror}") from None
    with file:
        try:
            status = os.fstat(file.fileno())
            if not status.st_size:
                raise CoreFileError("is empty, as where the disk or a quota was full")
            start = os.pread(file.fileno(), 8, 0)
            for magic, (name, _) in COMPRESSIONS.items():
                if start.startswith(magic):
                    raise CompressedError(f"is compressed ({name})")
            found = _read(path, elf.reader(file.fileno()))
        except OSError as error:
            raise CoreFileError(f"cannot be read: {error.strerror}") from None
    missing = max(0, found.missing_bytes - status.st_size)
    return msgspec.structs.replace(found, missing_bytes=missing, written_s=status.st_mtime)


def environment_of_core(path: str) -> dict[str, str]:
    """Return the environment that the process of a core file began with; empty if it is not there.

    :raises CoreFileError: if it is not a core file, or cannot be read.
    """
    try:
        with open_regular(path) as file:
            memory = CoreMemory(elf.reader(file.fileno()))
            auxiliary = next((data for kind, data in memory.all_notes() if kind == _NT_AUXV), b"")
            order, is_64 = memory.head.order, memory.head.is_64
            values = _auxiliary_values(auxiliary, order, is_64=is_64)
            return _environment(memory, auxiliary, values)
    except OSError as error:
        raise CoreFileError(f"cannot be read: {error.strerror}") from None


def _read(path: str, read: elf.Read) -> CoreFile:
    """Return a core file; its ``missing_bytes`` is the size that its table promises."""
    memory = CoreMemory(read)
    order, is_64 = memory.head.order, memory.head.is_64
    signal = pid = 0
    command = arguments = ""
    auxiliary = b""
    mapped: tuple[MappedPart, ...] = ()
    has_status = False
    for kind, data in memory.all_notes():
        if kind == _NT_PRSTATUS and not has_status and len(data) >= 16:
            # The thread that died comes first.
            has_status = True
            signal = struct.unpack_from(f"{order}h", data, 12)[0]
        elif kind == _NT_PRPSINFO and len(data) >= 112:
            # Counted from its end it is alike for all processors.
            pid = struct.unpack_from(f"{order}i", data, len(data) - 112)[0]
            command, arguments = _text(data[-96:-80]), _text(data[-80:]).rstrip(" ")
        elif kind == _NT_AUXV:
            auxiliary = data
        elif kind == _NT_FILE:
            mapped = tuple(_mapped(data, order, is_64=is_64))
    values = _auxiliary_values(auxiliary, order, is_64=is_64)
    program = _program(mapped, values)
    build_id = ""
    if (own := next((each for each in mapped if each.path == program), None)) is not None:
        try:
            build_id = elf.build_id_in_memory(memory.read, own.start - own.offset_bytes)
        except elf.ElfError:
            pass  # the first page of the program is not in the core
    environment = _environment(memory, auxiliary, values)
    return CoreFile(
        path=path,
        program=program.removesuffix(DELETED),
        is_deleted=program.endswith(DELETED),
        command=command,
        arguments=arguments,
        pid=pid,
        signal=signal,
        identity=rank_environment(environment),
        mapped=mapped,
        build_id=build_id,
        missing_bytes=memory.promised_bytes,
    )


def _mapped(data: bytes, order: str, *, is_64: bool) -> Iterator[MappedPart]:
    """Yield the entries of an NT_FILE note."""
    word, width = ("Q", 8) if is_64 else ("I", 4)
    if len(data) < 2 * width:
        return
    count, page = struct.unpack_from(f"{order}2{word}", data, 0)
    names_at = 2 * width + 3 * width * count
    if names_at > len(data):
        return
    names = data[names_at:].split(b"\0")
    for index, name in zip(range(count), names, strict=False):
        at = 2 * width + 3 * width * index
        start, end, offset = struct.unpack_from(f"{order}3{word}", data, at)
        yield MappedPart(start, end, offset * page, os.fsdecode(name))


def _auxiliary_values(data: bytes, order: str, *, is_64: bool) -> dict[int, int]:
    word, width = ("Q", 8) if is_64 else ("I", 4)
    whole = data[: len(data) - len(data) % (2 * width)]
    return dict(struct.iter_unpack(f"{order}2{word}", whole))


def _program(mapped: Sequence[MappedPart], values: dict[int, int]) -> str:
    """Return the name of the file in which the program's code begins."""
    for key in (_AT_ENTRY, _AT_PHDR):
        address = values.get(key, 0)
        for each in mapped:
            if each.start <= address < each.end:
                return each.path
    return ""


def _environment(memory: CoreMemory, auxiliary: bytes, values: dict[int, int]) -> dict[str, str]:
    """Return the variables that the process began with; empty if the core does not have them.

    From low to high addresses the kernel puts there: argc, the pointers to the arguments, 0, the
    pointers to the variables, 0, the auxiliary vector; then AT_RANDOM's bytes, then the texts.
    """
    random = values.get(_AT_RANDOM, 0)
    begin = random - _MOST_BYTES_BELOW_RANDOM
    if not random or len(auxiliary) < 32:
        return {}
    # The vector in memory may end before the note does, which has further zeros.
    near = memory.read(begin, _MOST_BYTES_BELOW_RANDOM) or _below(memory, random)
    place = near.rfind(auxiliary[:32])
    if place < 0:
        return {}
    vector_at = random - len(near) + place
    return _variables(memory, vector_at, random, values.get(_AT_EXECFN, 0))


def _below(memory: CoreMemory, address: int) -> bytes:
    """Return the memory below an address, down to where its segment begins."""
    size = _MOST_BYTES_BELOW_RANDOM
    while size > 256:
        size //= 2
        if data := memory.read(address - size, size):
            return data
    return b""


def _variables(memory: CoreMemory, vector_at: int, random: int, end: int) -> dict[str, str]:
    """Return the variables between the arguments and *end*, where the program's name is.

    The texts count, not the pointers: unsetenv(3) moves pointers, but leaves the texts.
    """
    word, width = ("Q", 8) if memory.head.is_64 else ("I", 4)
    form = f"{memory.head.order}{word}"
    end = end or random + _MOST_ENVIRONMENT_BYTES
    pointers: list[int] = []
    at = vector_at - width
    while len(pointers) < _MOST_ENVIRONMENT_BYTES // width:
        raw = memory.read(at, width)
        value = struct.unpack(form, raw)[0] if len(raw) == width else 0
        if value and not random < value < end:
            break  # the number of arguments
        pointers.append(value)
        at -= width
    else:
        return {}
    arguments = pointers[len(pointers) - value :] if value <= len(pointers) else []
    texts_at = max(arguments, default=0) or min((each for each in pointers if each), default=0)
    if not texts_at:
        return {}
    texts = memory.read(texts_at, min(end - texts_at, _MOST_ENVIRONMENT_BYTES)).split(b"\0")
    found: dict[str, str] = {}
    for text in texts[1 if arguments else 0 :]:
        name, equals, of_it = _decoded(text).partition("=")
        if equals:
            found[name] = of_it
    return found


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _text(data: Any) -> str:
    return _decoded(bytes(data).partition(b"\0")[0])
