"""ELF objects are read correctly, and damaged ones raise nothing worse than their error."""

from __future__ import annotations

import os
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdb import elf
from tests.support import elves

ID = "00ff" * 10


def reading(data: bytes) -> elf.Read:
    return lambda at, size_bytes: data[at : at + size_bytes] if 0 <= at else b""


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("is_64", [True, False])
def test_the_build_id_is_read_from_file_and_from_memory(order: str, is_64: bool) -> None:
    data = elves.elf(ID, b"body", order=order, is_64=is_64)
    assert elf.build_id_of_file(reading(data)) == ID
    base = 0x7000_0000
    memory = lambda at, size_bytes: reading(data)(at - base, size_bytes)  # noqa: E731
    assert elf.build_id_in_memory(memory, base) == ID


def test_an_object_without_a_build_id_has_none() -> None:
    assert elf.build_id_of_file(reading(elves.elf(""))) == ""


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n" + bytes(100), bytes(64)])
def test_what_is_no_object_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(elf.ElfError):
        elf.build_id_of_file(reading(data))


@given(st.lists(st.tuples(st.integers(0, 199), st.integers(0, 255)), max_size=8), st.integers(0))
def test_a_damaged_object_raises_nothing_else(changes: list[tuple[int, int]], length: int) -> None:
    data = bytearray(elves.elf(ID, bytes(60)))
    for at, value in changes:
        data[at % len(data)] = value
    read = reading(bytes(data[: length % (len(data) + 1)]))
    for what in (elf.build_id_of_file, elf.debug_link, lambda r: elf.build_id_in_memory(r, 0)):
        try:
            assert isinstance(what(read), str)
        except elf.ElfError:
            pass


@given(st.binary(max_size=600), st.integers(0, 600), st.integers(0, 1 << 16), st.booleans())
def test_a_link_map_of_nonsense_ends(data: bytes, at: int, count: int, is_64: bool) -> None:
    elf.link_map(reading(data), at, count, is_64=is_64, order="<")


def test_a_circle_in_the_link_map_ends() -> None:
    # One program header table, a dynamic section with DT_DEBUG, and a list that leads to itself.
    headers = struct.pack("<IIQQQQQQ", 6, 4, 0x100, 0x100, 0x100, 0, 0, 8)
    headers += struct.pack("<IIQQQQQQ", 2, 4, 0x200, 0x200, 0x200, 32, 32, 8)
    memory = bytearray(0x500)
    memory[0x100 : 0x100 + len(headers)] = headers
    memory[0x200:0x220] = struct.pack("<4Q", 21, 0x300, 0, 0)
    memory[0x300:0x328] = struct.pack("<5Q", 1, 0x400, 0, 0, 0)
    memory[0x400:0x428] = struct.pack("<5Q", 0, 0x450, 0x200, 0x400, 0)
    memory[0x450:0x458] = b"/lib/x\0\0"
    found = elf.link_map(reading(bytes(memory)), 0x100, 2, is_64=True, order="<")
    assert found == elf.LinkMap("", (elf.Loaded("/lib/x", 0x200),))


def test_headers_that_point_beyond_any_file_are_read_as_nothing() -> None:
    with open(sys.executable, "rb") as file:
        read = elf.reader(file.fileno())
        assert read(0, 4) == b"\x7fELF" == os.pread(file.fileno(), 4, 0)
        assert read(1 << 63, 4) == b"" == read(-1, 4)
