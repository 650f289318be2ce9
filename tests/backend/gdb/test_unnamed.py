"""Names for code without symbols, of this very process and of objects that are damaged."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb import elf
from pgdb.backend.gdb.unnamed import UnnamedCode
from pgdb.process_maps import Mapping, read_mappings

PID = os.getpid()
LIBC = ctypes.CDLL("libc.so.6")
FUNCTIONS = ("qsort", "memfrob", "strtod", "getaddrinfo", "regcomp")


def address_of(function: str) -> int:
    found = ctypes.cast(getattr(LIBC, function), ctypes.c_void_p).value
    assert found
    return found


def mapping_of(address: int) -> Mapping:
    return next(each for each in read_mappings(PID) if each.start <= address < each.end)


def base_of(path: str) -> int:
    return min(each.start for each in read_mappings(PID) if each.path == path)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_has_the_address_of_its_start(function: str) -> None:
    start = address_of(function)
    path = mapping_of(start).path
    # The C library is linked for address 0, so its addresses are distances from its beginning.
    expected = f"{os.path.basename(path)}+{start - base_of(path):#x}"
    code = UnnamedCode()
    assert code.name(PID, start, is_return=False) == expected
    assert code.name(PID, start + 5, is_return=False) == expected
    assert code.name(PID, start + 5, is_return=True) == expected
    assert code.offset(expected, start + 5) == "+5"
    assert code.offset("qsort", start + 5) == ""


def test_a_return_address_belongs_to_the_function_that_has_called() -> None:
    """A call that never returns is the last instruction of its function."""
    start = address_of("qsort")
    code = UnnamedCode()
    here = code.name(PID, start, is_return=False)
    addresses = range(start, start + (1 << 16))
    end = next(at for at in addresses if code.name(PID, at, is_return=False) != here)
    assert code.name(PID, end, is_return=True) == here


def test_code_that_the_program_has_made() -> None:
    code = UnnamedCode()
    code.name(PID, address_of("qsort"), is_return=False)
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    # Younger than the list of mappings that has been read.
    begin = ctypes.addressof(ctypes.c_char.from_buffer(page))
    code.outdate()
    name = code.name(PID, begin + 0x1B, is_return=False)
    mapping = mapping_of(begin)
    assert name == f"[anon]+{begin + 0x1B - mapping.start:#x}"
    assert code.offset(name, begin) == ""


def test_addresses_that_hold_no_code() -> None:
    code = UnnamedCode()
    data = ctypes.create_string_buffer(1 << 12)
    name = code.name(PID, ctypes.addressof(data), is_return=True)
    assert name in ("[heap]", "[anon]")
    assert code.name(PID, 0x123456789, is_return=False) == "0x123456789"


def test_a_damaged_stack_reads_the_mappings_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def read(pid: int) -> list[Mapping]:
        reads.append(pid)
        return list(read_mappings(pid))

    monkeypatch.setattr("pgdb.backend.gdb.rank_image.read_mappings", read)
    code = UnnamedCode()
    for stack in (1, 2):
        code.outdate()
        for address in range(0x1000, 0x1040):
            assert code.name(PID, address, is_return=True) == f"{address:#x}"
        assert len(reads) == stack


def test_a_process_whose_mappings_may_not_be_read_is_left_unnamed() -> None:
    assert UnnamedCode().name(1 << 30, 0x401136, is_return=False) == "??"


def table(*functions: tuple[int, int], encoding: int = 0x1B, version: int = 1) -> bytes:
    """Return an object's tables at address 0: .eh_frame_hdr, and 1024 bytes behind it .eh_frame."""
    register = b"\x10" if version == 1 else b"\x90\x00"
    head = b"\0" * 4 + bytes([version]) + b"zPLR\0\x01\x78" + register + b"\x07"
    head += bytes([0x9B]) + b"abcd" + bytes([0x1B, encoding])
    entries = struct.pack("<I", len(head)) + head
    pairs = b""
    size = {0x1B: 4, 0x04: 8, 0x00: 8}[encoding]
    for start, size_bytes in functions:
        at = 1024 + len(entries)
        pairs += struct.pack("<ii", start, at)
        body = struct.pack("<I", at + 4 - 1024) + b"\0" * size + size_bytes.to_bytes(size, "little")
        entries += struct.pack("<I", len(body)) + body
    front = b"\x01\x1b\x03\x3b" + struct.pack("<iI", 1020, len(functions)) + pairs
    return front.ljust(1024, b"\0") + entries


def reader_of(data: bytes) -> elf.Read:
    return lambda at, size_bytes: data[at : at + size_bytes] if at >= 0 else b""


@pytest.mark.parametrize("encoding", [0x1B, 0x04, 0x00])
@pytest.mark.parametrize("version", [1, 3])
def test_the_table_of_functions(encoding: int, version: int) -> None:
    functions = [(0x2000, 0x40), (0x2040, 0x10), (0x3000, 0x100)]
    read = reader_of(table(*functions, encoding=encoding, version=version))

    def start_of(address: int) -> int | None:
        return elf.function_start(read, 0, address, order="<", is_64=True)

    for start, size_bytes in functions:
        assert {start_of(at) for at in range(start, start + size_bytes)} == {start}
    assert start_of(0x1FFF) is None
    assert start_of(0x2050) is None, "between two functions"
    assert start_of(0x3100) is None


def test_few_bytes_of_a_large_table_are_read() -> None:
    count, entry_at, head_at, asked = 360_000, 4_000_000, 3_900_000, []
    pairs = b"".join(struct.pack("<ii", 16 * at, entry_at) for at in range(count))
    parts = {
        0: b"\x01\x1b\x03\x3b" + struct.pack("<iI", 0, count) + pairs,
        head_at: b"\0" * 8 + b"\x01zR\0\x01\x78\x10\x01\x1b",
        entry_at: struct.pack("<IIII", 16, entry_at + 4 - head_at, 0, 16),
    }

    def read(at: int, size_bytes: int) -> bytes:
        asked.append(size_bytes)
        begin = max(each for each in parts if each <= at)
        return parts[begin][at - begin :][:size_bytes]

    found = elf.function_start(read, 0, 16 * 1234 + 3, order="<", is_64=True)
    assert found == 16 * 1234
    assert sum(asked) < 1000


@given(data=st.binary(max_size=200), address=st.integers(0, 1 << 64), at=st.integers(0, 199))
def test_a_damaged_table_names_nothing(data: bytes, address: int, at: int) -> None:
    good = table((0x2000, 0x40), (0x2040, 0x10))
    for damaged in (b"\x01\x1b\x03\x3b" + data, good[:at] + data + good[at + len(data) :], data):
        found = elf.function_start(reader_of(damaged), 0, address, order="<", is_64=True)
        assert found is None or found <= address
