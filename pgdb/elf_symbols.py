"""Addresses of variables in a process, from the symbols of the objects that it has mapped."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from pgdb import elf
from pgdb.process_maps import Mapping
from pgdb.regular_files import open_regular

# Elf64_Sym: st_name, st_info, st_other, st_shndx, st_value, st_size.
_SYMBOL = struct.Struct("<IBBHQQ")
# include/uapi/linux/elf.h
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_SHN_UNDEF = 0
_SHN_LORESERVE = 0xFF00
_LARGEST_OBJECT_BYTES = 1 << 30


def symbol_values(file: Path, mapping: Mapping, variables: Sequence[str]) -> tuple[int, ...] | None:
    """Return the addresses of variables of a mapped object; None if it lacks one."""
    try:
        with open_regular(file) as stream:
            if os.fstat(stream.fileno()).st_size > _LARGEST_OBJECT_BYTES:
                return None
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as image:
                # Looking up symbols in all objects of a launcher took 0.5-2 s, finding the one or
                # two files that contain the bytes at all under 10 ms.
                if image.find(variables[-1].encode() + b"\0") < 0:
                    return None
                return _look_up(image, mapping, variables)
    except (OSError, ValueError):
        # ValueError: an empty file cannot be mapped, or a torn file is no object.
        return None


def _look_up(
    image: mmap.mmap, mapping: Mapping, variables: Sequence[str]
) -> tuple[int, ...] | None:
    def read(offset: int, size_bytes: int) -> bytes:
        return image[offset : offset + size_bytes]

    head = elf.header(read)
    if not head.is_64 or head.order != "<":
        return None
    bias = _load_bias(head, read, mapping)
    if bias is None:
        return None
    sections = list(elf.sections(head, read))
    # Intel's launcher has the names only in .symtab, Open MPI's libopen-rte only in .dynsym.
    for kind in (_SHT_DYNSYM, _SHT_SYMTAB):
        section = next((each for each in sections if each.kind == kind), None)
        if section is None or section.link >= len(sections):
            continue
        strings = sections[section.link]
        names = read(strings.offset, strings.size_bytes)
        wanted = {offset: name for name in variables for offset in _offsets(names, name)}
        found: dict[str, int] = {}
        data = read(section.offset, section.size_bytes)
        whole = len(data) - len(data) % _SYMBOL.size
        for name_at, _, _, section_index, value, _ in _SYMBOL.iter_unpack(data[:whole]):
            if name_at in wanted and _SHN_UNDEF < section_index < _SHN_LORESERVE:
                found[wanted[name_at]] = value + bias
        if len(found) == len(variables):
            return tuple(found[each] for each in variables)
    return None


def _offsets(names: bytes, name: str) -> Iterator[int]:
    # A linker may merge a string with the tail of another, so no zero byte need precede it.
    pattern = name.encode() + b"\0"
    at = names.find(pattern)
    while at >= 0:
        yield at
        at = names.find(pattern, at + 1)


def _load_bias(head: elf.Header, read: elf.Read, mapping: Mapping) -> int | None:
    """Return the difference between addresses in the process and in the file."""
    page_mask = ~(os.sysconf("SC_PAGE_SIZE") - 1)
    for segment in elf.segments_of(head, read):
        if segment.kind == elf.PT_LOAD and segment.offset & page_mask == mapping.offset:
            return mapping.start - (segment.address & page_mask)
    return None
