"""Arrays and tables of Apache Arrow are read from memory, and another layout is noticed."""

from __future__ import annotations

import struct
import sys

import pytest

from pgdb.backend.python import arrow, arrow_text, reader
from pgdb.backend.python.arrow import ArrowArray
from pgdb.backend.python.objects import Objects, UnknownError
from tests.support.programs import ROOT
from tests.support.python_processes import running, value

PROGRAM = ROOT / "tests" / "programs" / "python_arrow.py"
EXPECTED = {
    "missing": "Int64Array of int64, shape (4,) = {1, 2, null, 4}",
    "whole": "DoubleArray of float64, shape (2,) = {1.5, 2.5}",
    "whole[1]": "2.5",
    "part": "Int64Array of int64, shape (4,) = {3, 4, 5, 6}",
    "part[-1]": "6",
    "small": "UInt8Array of uint8, shape (2,) = {1, 2}",
    "chunks": "ChunkedArray of int64, shape (3,) = {1, 2, 3}",
    "chunk[1]": "2",
    "nothing": "ChunkedArray of int8, shape (0,) = {}",
    "nulls": "NullArray of null, shape (2,) = {null, null}",
    "texts": "StringArray of string, shape (3,) = {'ab', '\u00e9', null}",
    "long_texts": "LargeStringArray of large_string, shape (1,) = {'ab'}",
    "data": "BinaryArray of binary, shape (1,) = {b'x'}",
    "truths": "BooleanArray of bool, shape (10,) = "
    "{null, True, False, null, True, False, null, True, False, null}",
    "labels": "DictionaryArray of dictionary<string>, shape (4,) = {'x', 'y', 'x', null}",
    "moments": "TimestampArray of timestamp[us], shape (2,) = {2026-01-02T00:00:00.000000, null}",
    "zoned": "TimestampArray of timestamp[s, tz=UTC], shape (1,) = {1970-01-01T00:00:00}",
    "spans": "DurationArray of duration[ms], shape (1,) = {3 ms}",
    "days": "Date32Array of date32[day], shape (1,) = {2026-01-02}",
    "lists": "ListArray of list<int64>, shape (2,)",
    "table": "Table of 3 rows = {a = {1, 2, 3}, b = {'x', 'y', null}, l = {<list<int64>>...}}",
    "table['a']": "ChunkedArray of int64, shape (3,) = {1, 2, 3}",
    "table['a'][1]": "2",
    "batch": "RecordBatch of 2 rows = {a = {2, 3}, b = {'y', null}, l = {<list<int64>>...}}",
    "schema": "Schema(a: int64, b: string, l: list<int64>)",
    "kind": "DataType(list<int64>)",
    "held": "{'k': DoubleArray of float64, shape (2,) = {1.5, 2.5}}",
    "frame": "DataFrame of 2 rows = {a = {1, 2}, s = {'x', <NA>}}",
    "frame['a']": "numpy.ndarray of int64, shape (2,) = {1, 2}",
    "series": "Series of int64, shape (2,) = {1, 2}",
}
REFUSED = {
    "table['b']": "no array of numbers: its elements are string",
    "table['z']": "the Table has no column 'z'",
    "missing[0]": "some of its values are null",
    "chunks[0]": "its values are in 2 chunks",
    "frame['s']": "its elements are (large_)?string",
}


@pytest.mark.slow
@pytest.mark.skipif(not reader.program(), reason="py-spy is not installed")
def test_arrays_and_tables_of_pyarrow() -> None:
    pytest.importorskip("pyarrow")
    with running(sys.executable, PROGRAM) as process:
        process.look()
        assert {each: value(process, each) for each in EXPECTED} == EXPECTED
        assert value(process, "many").endswith("199...}")
        for text, why in REFUSED.items():
            with pytest.raises(UnknownError, match=why):
                value(process, text)


class Memory:
    """Objects of C++ and of Python, in a memory that has nothing else."""

    _BASE = 1 << 20

    def __init__(self) -> None:
        self._bytes = bytearray()

    def data(self, data: bytes) -> int:
        """Store bytes, and return their address."""
        address = self._BASE + len(self._bytes)
        # A text is read in blocks, which end behind it.
        size = -(-len(data) // 16) * 16 + 256
        self._bytes += data.ljust(size, b"\0")
        return address

    def words(self, *values: int) -> int:
        return self.data(struct.pack(f"<{len(values)}Q", *values))

    def read(self, address: int, size: int) -> bytes:
        start = address - self._BASE
        return bytes(self._bytes[start : start + size]) if start >= 0 else b""

    def of_class(self, symbol: str, *fields: int) -> int:
        """Store an object of C++ with virtual functions."""
        described = self.words(0, self.data(symbol.encode() + b"\0"))
        return self.words(self.words(described) + 8, *fields)

    def vector(self, *places: int) -> tuple[int, int]:
        begin = self.words(*(word for each in places for word in (each, 0)))
        return begin, begin + 16 * len(places)

    def buffer(self, data: bytes, *, is_cpu: bool = True) -> int:
        return self.of_class("N5arrow6BufferE", is_cpu << 8, self.data(data), len(data))

    def array(self, kind: int, length: int, *buffers: int) -> int:
        """Store an array, and return its address."""
        return self.of_class(
            "N5arrow5ArrayE", self.words(kind, 0, length, 1, 0, *self.vector(*buffers), *[0] * 8)
        )

    def python(self, name: str, held: int, block: int) -> Objects:
        """Store the object of Python at *self.address* that has an object of C++."""
        kind = [0] * 64
        kind[3], kind[4] = self.data(name.encode() + b"\0"), 56
        self.address = self.words(1, self.words(*kind), 0, 0, held, block, held)
        return Objects(self.read, 11)


INT64 = "N5arrow9Int64TypeE"


def test_numbers_with_a_missing_one() -> None:
    memory = Memory()
    kind = memory.of_class(INT64, *[0] * 12)
    numbers = memory.buffer(struct.pack("<3q", 5, 6, 7))
    held = memory.array(kind, 3, memory.buffer(b"\5"), numbers)
    objects = memory.python("pyarrow.lib.Int64Array", held, 0)
    shown = arrow_text.text_of(objects, memory.address, 200)
    assert shown is not None and shown.text == "Int64Array of int64, shape (3,) = {5, null, 7}"
    with pytest.raises(UnknownError, match="some of its values are null"):
        arrow_text.place_of(objects, memory.address)


def test_a_chunked_array_is_known_by_its_shared_pointer() -> None:
    memory = Memory()
    kind = memory.of_class(INT64, *[0] * 12)
    parts = [memory.array(kind, 1, 0, memory.buffer(struct.pack("<q", each))) for each in (4, 5)]
    held = memory.words(*memory.vector(*parts), 0, kind, 0, 2)
    block = memory.of_class("St23_Sp_counted_ptr_inplaceIN5arrow12ChunkedArrayESaIvEE")
    objects = memory.python("pyarrow.lib.ChunkedArray", held, block)
    found = arrow.find(objects, memory.address)
    assert isinstance(found, ArrowArray)
    assert arrow_text.values(objects, found, 200) == ["4", "5"]


def test_another_layout_is_refused() -> None:
    memory = Memory()
    held = memory.array(memory.words(*[0] * 12), 1, 0, 0)
    objects = memory.python("pyarrow.lib.Int64Array", held, 0)
    with pytest.raises(UnknownError, match="layout of this version"):
        arrow.find(objects, memory.address)


def test_values_on_a_device_are_not_read() -> None:
    memory = Memory()
    kind = memory.of_class(INT64, *[0] * 12)
    held = memory.array(kind, 1, 0, memory.buffer(bytes(8), is_cpu=False))
    objects = memory.python("pyarrow.lib.Int64Array", held, 0)
    with pytest.raises(UnknownError, match="memory of a device"):
        arrow_text.text_of(objects, memory.address, 200)


def test_objects_of_other_modules_are_no_arrays() -> None:
    memory = Memory()
    held = memory.array(memory.of_class(INT64, *[0] * 12), 1, 0, 0)
    assert arrow.find(memory.python("other.Int64Array", held, 0), memory.address) is None
