"""Entry frames are read from the interpreter's structures, or not at all."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pytest

from pgdb.backend.python.runtime import Entry, entries, offsets, runtime_address
from pgdb.process_maps import Mapping as MappedPart

RUNTIME, INTERPRETER, THREAD = 0x10000, 0x20000, 0x30000
# Names of the fields before the first one of the threads and of the frames.
SHAPES = {(3, 13): (13, 9), (3, 14): (16, 9), (3, 15): (16, 16)}


def memory_of(
    words: Mapping[int, int], version: tuple[int, int] = (3, 13), cookie: bytes = b"xdebugpy"
):  # type: ignore[no-untyped-def]
    """Return a reader of words; a table of offsets is at RUNTIME."""
    head = [0, version[0] << 24 | version[1] << 16, 0, 0x1000, 8, 16]
    interpreter, thread = SHAPES.get(version, (13, 9))
    fields = [0x1000, 0, 8, 16, *([0] * (interpreter - 4))]
    # size prev next interp current_frame … thread_id native_thread_id datastack_chunk status …
    states = [0x100, 0, 8, 0, 16, *([0] * (thread - 5))]
    states[{(3, 15): 9}.get(version, 6)] = 24
    frame = [0x60, 0, 0, 0, 0, 8, 0, 0]
    if version == (3, 15):
        frame = [0, *frame]
    table = head + fields + states + frame
    data = cookie + struct.pack(f"<{len(table) - 1}Q", *table[1:])
    data = data.ljust(8 * 128, b"\0")

    def read(address: int, size_bytes: int) -> bytes:
        if RUNTIME <= address < RUNTIME + 16:
            data_here = bytearray(data)
            return bytes(data_here[address - RUNTIME :][:size_bytes]).ljust(size_bytes, b"\0")
        found = b"".join(
            struct.pack("<Q", words[each])
            for each in range(address, address + size_bytes + 7 & ~7, 8)
            if each in words
        )
        return found[:size_bytes]

    return read


WORDS = {
    RUNTIME + 16: INTERPRETER,
    INTERPRETER + 16: THREAD,
    INTERPRETER + 8: 0,
    THREAD + 24: 41,
    THREAD + 16: 0x40000,
    THREAD + 8: 0,
    # previous frame, then its owner
    0x40000: 0x7100,
    0x40008: 0,
    0x7100: 0x40100,
    0x7108: 3,
    0x40100: 0x40200,
    0x40108: 1,
    0x40200: 0x7900,
    0x40208: 0,
    0x7900: 0,
    0x7908: 3,
}


def reader_of(words: Mapping[int, int], version: tuple[int, int]):  # type: ignore[no-untyped-def]
    read = memory_of(words, version)

    def with_head(address: int, size_bytes: int) -> bytes:
        if address == RUNTIME + 16 and size_bytes == 8:
            return struct.pack("<Q", words[RUNTIME + 16])
        return bytes(read(address, size_bytes))

    return with_head


@pytest.mark.parametrize("version", [(3, 13), (3, 14), (3, 15)])
def test_entry_frames_with_the_numbers_of_their_frames(version: tuple[int, int]) -> None:
    memory = reader_of(WORDS, version)
    known = offsets(memory, RUNTIME)
    assert known is not None
    assert known.version == version
    assert entries(memory, known) == {41: [Entry(0x7100, 1), Entry(0x7900, 2)]}


def test_unknown_tables_are_refused() -> None:
    assert offsets(memory_of({}, (3, 16)), RUNTIME) is None
    assert offsets(memory_of({}, cookie=b"xdebugpx"), RUNTIME) is None
    assert offsets(lambda address, size: b"", RUNTIME) is None
    assert offsets(memory_of({}), 0) is None


@pytest.mark.parametrize("missing", sorted(WORDS)[1:])
def test_memory_that_cannot_be_read_gives_no_half_answer(missing: int) -> None:
    words = {address: word for address, word in WORDS.items() if address != missing}
    memory = reader_of(WORDS, (3, 13))
    known = offsets(memory, RUNTIME)
    assert known is not None
    if missing != RUNTIME + 16:
        assert entries(reader_of(words, (3, 13)), known) is None


def test_a_loop_of_frames_ends() -> None:
    words = {**WORDS, 0x7900: 0x40000}
    memory = reader_of(words, (3, 13))
    known = offsets(memory, RUNTIME)
    assert known is not None
    assert entries(memory, known) is None


def test_files_that_are_no_interpreter_have_no_runtime() -> None:
    mappings = [
        MappedPart(0x1000, 0x2000, "r-xp", 0, "/usr/lib/libpython3.99.so"),
        MappedPart(0x3000, 0x4000, "r-xp", 0, "/lib/libc.so.6"),
    ]
    assert runtime_address(mappings, lambda path: "/nonexistent") == 0
    assert runtime_address(mappings, lambda path: "/etc/hostname") == 0
