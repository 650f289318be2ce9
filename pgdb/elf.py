"""Read the build-id, the debug link and the link map of ELF objects.

Reads from a file or from a process's memory are few and small: where many hosts share a file
system, the whole file must not be read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

Read = Callable[[int, int], bytes]
"""Function that reads at an offset or address (first) so many bytes (second); fewer at an end."""

MAX_ENTRIES = 4096
"""More bytes of headers, notes or loaded objects than this are damage."""
MAX_NOTES_BYTES = 1 << 16
MAX_NAME_BYTES = 4096
PT_LOAD = 1
PF_X = 1
"""Flag of a segment with code."""
PT_GNU_EH_FRAME = 0x6474E550
"""Segment with the sorted table of functions that exceptions and stack traces use."""
_PT_DYNAMIC, _PT_INTERP, _PT_NOTE, _PT_PHDR = 2, 3, 4, 6
_SHT_NOTE = 7
_NT_GNU_BUILD_ID = 3
_DT_NULL, _DT_DEBUG = 0, 21
# The encodings of .eh_frame_hdr that all linkers write (Linux Standard Base, chapter 10.6): a
# pointer relative to its own place, a count, and pairs relative to the header; of four bytes each.
_EH_ENCODINGS = b"\x01\x1b\x03\x3b"
_EH_PAIRS_AT = 12
# Size in bytes of a pointer of each form, the lower half of an encoding (DW_EH_PE_…).
_POINTER_BYTES = {0x02: 2, 0x03: 4, 0x04: 8, 0x0A: 2, 0x0B: 4, 0x0C: 8}


def reader(file: int) -> Read:
    """Return a reader of an open file; beyond the end, where damaged headers may point, it reads
    nothing."""

    def read(offset: int, size_bytes: int) -> bytes:
        return os.pread(file, size_bytes, offset) if 0 <= offset < 1 << 62 else b""

    return read


class ElfError(ValueError):
    """Bytes that are not an ELF object, or a damaged one."""


class Segment(msgspec.Struct, frozen=True):
    """One entry of the program headers."""

    kind: int
    offset: int
    address: int
    size_bytes: int
    """Size in the file."""
    flags: int = 0


class Section(msgspec.Struct, frozen=True):
    """One entry of the section headers."""

    kind: int
    name_at: int
    """Offset of its name in the section of names."""
    offset: int
    size_bytes: int
    link: int
    """Number of a related section, such as the one with its strings."""


class Header(msgspec.Struct, frozen=True):
    """The fields of the ELF header that PGDB needs."""

    order: Literal["<", ">"]
    is_64: bool
    segments_at: int
    segment_size: int
    segment_count: int
    sections_at: int
    section_size: int
    section_count: int
    names_index: int


def header(read: Read) -> Header:
    """Return the header of an object.

    :raises ElfError: if there is no ELF object.
    """
    start = read(0, 64)
    if (
        start[:4] != b"\x7fELF"
        or start[4:5] not in (b"\1", b"\2")
        or start[5:6] not in (b"\1", b"\2")
    ):
        raise ElfError("no ELF object")
    is_64, order = start[4] == 2, "<" if start[5] == 1 else ">"
    form = f"{order}QQIHHHHHH" if is_64 else f"{order}IIIHHHHHH"
    try:
        fields = struct.unpack_from(form, start, 32 if is_64 else 28)
    except struct.error:
        raise ElfError("the ELF header is cut off") from None
    segments_at, sections_at, _, _, segment_size, segments, section_size, sections, names = fields
    return Header(
        order="<" if order == "<" else ">",
        is_64=is_64,
        segments_at=segments_at,
        segment_size=segment_size,
        segment_count=segments,
        sections_at=sections_at,
        section_size=section_size,
        section_count=sections,
        names_index=names,
    )


def segments(head: Header, table: bytes) -> Iterator[Segment]:
    """Yield the entries of a program header table."""
    form = f"{head.order}IIQQQQ" if head.is_64 else f"{head.order}7I"
    for index in range(min(head.segment_count, MAX_ENTRIES)):
        try:
            fields = struct.unpack_from(form, table, index * head.segment_size)
        except struct.error:
            return
        if head.is_64:
            kind, flags, offset, address, _, size_bytes = fields
        else:
            kind, offset, address, _, size_bytes, _, flags = fields
        yield Segment(kind, offset, address, size_bytes, flags)


def build_id_of_file(read: Read) -> str:
    """Return the build-id of the object in a file, in hexadecimal digits; empty if it has none.

    :raises ElfError: if the file is not an ELF object.
    """
    head = header(read)
    for each in segments_of(head, read):
        if each.kind == _PT_NOTE and (found := _build_id(head, read, each.offset, each.size_bytes)):
            return found
    # In files made by objcopy --only-keep-debug only the sections locate the notes.
    for part in sections(head, read):
        if part.kind == _SHT_NOTE and (
            found := _build_id(head, read, part.offset, part.size_bytes)
        ):
            return found
    return ""


def build_id_in_memory(read: Read, base: int) -> str:
    """Return the build-id of the object whose first page is mapped at *base*.

    :raises ElfError: if there is no ELF object.
    """

    def here(offset: int, size_bytes: int) -> bytes:
        return read(base + offset, size_bytes)

    head = header(here)
    found = list(segments_of(head, here))
    first = next((each for each in found if each.kind == PT_LOAD), None)
    bias = base - (first.address - first.offset) if first is not None else base
    for each in found:
        if each.kind == _PT_NOTE:
            if build_id := _build_id(head, read, bias + each.address, each.size_bytes):
                return build_id
    return ""


def debug_link(read: Read) -> str:
    """Return the name of the debug file in an object's ``.gnu_debuglink``, or an empty text.

    :raises ElfError: if the file is not an ELF object.
    """
    head = header(read)
    found = list(sections(head, read))
    if head.names_index >= len(found):
        return ""
    strings = found[head.names_index]
    names = read(strings.offset, min(strings.size_bytes, 1 << 20))
    for each in found:
        if names[each.name_at : each.name_at + 15] == b".gnu_debuglink\0":
            data = read(each.offset, min(each.size_bytes, MAX_NAME_BYTES))
            name = data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
            return name if "/" not in name and name not in ("", ".", "..") else ""
    return ""


class Loaded(msgspec.Struct, frozen=True):
    """An object that the dynamic linker has loaded."""

    name: str
    """Name in the link map; empty for the program."""
    dynamic: int
    """Address of its dynamic section."""


class LinkMap(msgspec.Struct, frozen=True):
    """The work of a process's dynamic linker; a static program has none."""

    interpreter: str = ""
    """Path of the dynamic linker."""
    loaded: tuple[Loaded, ...] = ()
    """The loaded objects; empty until the linker has begun."""


def link_map(
    read: Read, table_address: int, count: int, *, is_64: bool, order: Literal["<", ">"]
) -> LinkMap:
    """Return the link map in a process's memory.

    *table_address* and *count* describe the program's header table (AT_PHDR, AT_PHNUM).
    """
    size = 56 if is_64 else 32
    head = Header(order, is_64, 0, size, count, 0, 0, 0, 0)
    found = list(segments(head, read(table_address, size * min(count, MAX_ENTRIES))))
    own = next((each.address for each in found if each.kind == _PT_PHDR), None)
    dynamic = next((each for each in found if each.kind == _PT_DYNAMIC), None)
    if own is None or dynamic is None:
        return LinkMap()
    bias = table_address - own
    interpreter = next((each for each in found if each.kind == _PT_INTERP), None)
    name = _text(read, bias + interpreter.address) if interpreter is not None else ""
    word = "Q" if is_64 else "I"
    width = 8 if is_64 else 4
    entries = read(bias + dynamic.address, min(dynamic.size_bytes, 2 * width * MAX_ENTRIES))
    debug = 0
    for tag, value in struct.iter_unpack(
        f"{order}2{word}", entries[: -(len(entries) % (2 * width)) or None]
    ):
        if tag == _DT_NULL:
            break
        if tag == _DT_DEBUG:
            debug = value
    return LinkMap(name, tuple(_loaded(read, debug, f"{order}5{word}", width)))


def _loaded(read: Read, debug: int, form: str, width: int) -> Iterator[Loaded]:
    """Follow the lists that begin at ``struct r_debug``, one for each namespace of dlmopen(3)."""
    seen: set[int] = set()
    while debug and debug not in seen and len(seen) < MAX_ENTRIES:
        seen.add(debug)
        try:
            # Fields: version, first of the list, break address, state, address of the linker.
            version, at, _, _, _ = struct.unpack(form, read(debug, 5 * width))
            while at and at not in seen and len(seen) < MAX_ENTRIES:
                seen.add(at)
                _, name, dynamic, next_at, _ = struct.unpack(form, read(at, 5 * width))
                yield Loaded(_text(read, name), dynamic)
                at = next_at
            if version & 0xFFFFFFFF < 2:
                return
            debug = int.from_bytes(
                read(debug + 5 * width, width), "little" if form[0] == "<" else "big"
            )
        except struct.error:
            return


def function_start(
    read: Read, table: int, address: int, *, order: Literal["<", ">"], is_64: bool
) -> int | None:
    """Return the start of the function that contains *address*, None if the table has none.

    See :func:`function_range`.
    """
    found = function_range(read, table, address, order=order, is_64=is_64)
    return found[0] if found is not None else None


def function_range(
    read: Read, table: int, address: int, *, order: Literal["<", ">"], is_64: bool
) -> tuple[int, int] | None:
    """Return the start and the end of the function that contains *address*, None if the table has
    none.

    *table* is the address of ``.eh_frame_hdr`` in memory. Few bytes are read, however many
    functions the object has.
    """
    head = read(table, _EH_PAIRS_AT)
    if head[:4] != _EH_ENCODINGS:
        return None
    try:
        count = struct.unpack_from(f"{order}I", head, 8)[0]
        low, high = 0, count

        def pair(index: int) -> tuple[int, int]:
            begin, entry = struct.unpack(f"{order}ii", read(table + _EH_PAIRS_AT + 8 * index, 8))
            return table + begin, table + entry

        while low < high:
            middle = (low + high) // 2
            if pair(middle)[0] <= address:
                low = middle + 1
            else:
                high = middle
        if not low:
            return None
        start, entry = pair(low - 1)
        size_bytes = _described_bytes(read, entry, order=order, is_64=is_64)
    except (IndexError, struct.error):
        return None
    return (start, start + size_bytes) if address < start + size_bytes else None


def _described_bytes(read: Read, entry: int, *, order: Literal["<", ">"], is_64: bool) -> int:
    """Return the size of the code that an entry of ``.eh_frame`` describes.

    :raises IndexError: if the entry is damaged.
    :raises struct.error: if it cannot be read.
    """
    _, back = struct.unpack(f"{order}II", read(entry, 8))
    # Entries with equal properties share a head.
    head = read(entry + 4 - back, 256)
    version = head[8]
    augmentation, _, rest = head[9:].partition(b"\0")
    encoding = 0
    if augmentation[:1] == b"z":
        at = _after_number(rest, _after_number(rest, 0))  # alignment factors
        at = at + 1 if version == 1 else _after_number(rest, at)  # register of the return address
        at = _after_number(rest, at)  # length of what follows
        for letter in augmentation[1:]:
            if letter in b"RL":
                encoding = rest[at] if letter in b"R" else encoding
                at += 1
            elif letter in b"P":
                at += 1 + _pointer_bytes(rest[at], is_64)
    size = _pointer_bytes(encoding, is_64)
    raw = read(entry + 8 + size, size)
    if len(raw) < size:
        raise IndexError("the entry is cut off")
    return int.from_bytes(raw, "little" if order == "<" else "big")


def _pointer_bytes(encoding: int, is_64: bool) -> int:
    return _POINTER_BYTES.get(encoding & 0x0F, 8 if is_64 else 4)


def _after_number(data: bytes, at: int) -> int:
    """Return the place behind a number in LEB128.

    :raises IndexError: if it has no end.
    """
    while data[at] & 0x80:
        at += 1
    return at + 1


def segments_of(head: Header, read: Read) -> Iterator[Segment]:
    """Yield the entries of the program header table at the place that the header gives."""
    count = min(head.segment_count, MAX_ENTRIES)
    yield from segments(head, read(head.segments_at, count * head.segment_size))


def sections(head: Header, read: Read) -> Iterator[Section]:
    """Yield the entries of the section header table."""
    count = min(head.section_count, MAX_ENTRIES)
    table = read(head.sections_at, count * head.section_size)
    form = f"{head.order}IIQQQQI" if head.is_64 else f"{head.order}IIIIIII"
    for index in range(count):
        try:
            fields = struct.unpack_from(form, table, index * head.section_size)
        except struct.error:
            return
        name_at, kind, _, _, offset, size_bytes, link = fields
        yield Section(kind, name_at, offset, size_bytes, link)


def _build_id(head: Header, read: Read, at: int, size_bytes: int) -> str:
    notes = read(at, min(size_bytes, MAX_NOTES_BYTES))
    place = 0
    while place + 12 <= len(notes):
        name_bytes, value_bytes, kind = struct.unpack_from(f"{head.order}III", notes, place)
        value_at = place + 12 + (name_bytes + 3 & ~3)
        end = value_at + value_bytes
        if end > len(notes):
            return ""
        if kind == _NT_GNU_BUILD_ID and notes[place + 12 : place + 16] == b"GNU\0":
            return notes[value_at:end].hex()
        place = value_at + (value_bytes + 3 & ~3)
    return ""


def _text(read: Read, at: int) -> str:
    data = b""
    while len(data) < MAX_NAME_BYTES:
        piece = read(at + len(data), 256)
        data += piece
        if b"\0" in piece or not piece:
            break
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")
