"""Arrays and tables of Apache Arrow (pyarrow), found in memory.

An object of pyarrow has a pointer to an object of C++. The names of the types of C++, which the
compiler writes beside the tables of virtual functions, say what is there, so another layout is
noticed. The layouts are those of Arrow 15 to 26.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import msgspec

from pgdb.backend.python.objects import Objects, UnknownError
from pgdb.patterns import pattern

_MODULE = "pyarrow.lib."
_NAME = pattern(r"N5arrow\d+([A-Za-z]\w*?)(?:I\w*E)?E\Z")
_CHUNKED = "IN5arrow12ChunkedArrayE"
"""Part of the name of the control block of a shared pointer, for a type that has no table."""
_FIRST_FIELD, _MOST_FIELD_BYTES = 16, 128
_MOST_CHUNKS, _MOST_COLUMNS, _MOST_BUFFERS, _MOST_DEPTH = 100_000, 2000, 1000, 4
_POINTER_BYTES = 16
"""Size of a shared pointer: the object, and its control block."""
_ARRAY_DATA_AT, _SCHEMA_AT, _ROWS_AT, _COLUMNS_AT = 8, 8, 24, 32
_SCHEMA_FIELDS_AT, _FIELD_NAME_AT, _FIELD_TYPE_AT = 24, 24, 56
_CHUNKED_TYPE_AT, _CHUNKED_LENGTH_AT = 24, 40
_LENGTH_AT, _NULLS_AT, _OFFSET_AT, _BUFFERS_AT, _DICTIONARY_AT = 16, 24, 32, 40, 88
_IS_CPU_AT, _BYTES_AT, _SIZE_AT = 9, 16, 24
_CHILDREN_AT, _PARAMETERS_AT, _ZONE_AT = 48, 72, 80
_NUMBERS_TYPE_AT, _DICTIONARY_TYPE_AT = 72, 88
_PLAIN = {
    "NullType": "null",
    "BooleanType": "bool",
    "HalfFloatType": "float16",
    "FloatType": "float32",
    "DoubleType": "float64",
    "StringType": "string",
    "BinaryType": "binary",
    "LargeStringType": "large_string",
    "LargeBinaryType": "large_binary",
    "StringViewType": "string_view",
    "BinaryViewType": "binary_view",
    "Date32Type": "date32[day]",
    "Date64Type": "date64[ms]",
} | {
    f"{sign}Int{bits}Type": f"{sign.lower()}int{bits}"
    for sign in ("", "U")
    for bits in (8, 16, 32, 64)
}
_WITH_UNIT = {
    "TimestampType": "timestamp",
    "Time32Type": "time32",
    "Time64Type": "time64",
    "DurationType": "duration",
}
_WITH_CHILDREN = {
    "ListType": "list",
    "LargeListType": "large_list",
    "FixedSizeListType": "fixed_size_list",
    "ListViewType": "list_view",
    "LargeListViewType": "large_list_view",
    "StructType": "struct",
    "MapType": "map",
}
UNITS = ("s", "ms", "us", "ns")


class ArrowArray(msgspec.Struct, frozen=True):
    """An array, or one that consists of several."""

    name: str
    """Name of its class, such as ``Int64Array``."""
    kind: int
    """Address of the type of its elements."""
    length: int
    parts: tuple[int, ...]
    """Addresses of the data of its arrays."""


class ArrowTable(msgspec.Struct, frozen=True):
    """A table, or a batch of rows."""

    name: str
    row_count: int
    columns: tuple[tuple[str, ArrowArray], ...]
    """The columns, each with its name."""


class Part(msgspec.Struct, frozen=True):
    """The data of one array."""

    kind: int
    length: int
    offset: int
    """Number of elements in the buffers before the first one of the array."""
    can_have_nulls: bool
    """Whether the number of missing elements is other than 0, or was never counted."""
    buffers: tuple[int, ...]
    """Addresses of the buffers, 0 for one that is not there."""
    dictionary: int
    """Address of the data of the values, whose numbers are the elements; 0 for none."""


def find(objects: Objects, address: int) -> ArrowArray | ArrowTable | None:
    """Return the array or the table that an object is, None for another object.

    :raises UnknownError: if it is one that cannot be read.
    """
    name = objects.type_name(address)
    if not name.startswith(_MODULE):
        return None
    short = name.removeprefix(_MODULE)
    for held, kind in _held(objects, address):
        if kind == "ChunkedArray":
            return _chunked(objects, held, short)
        if kind in ("SimpleTable", "SimpleRecordBatch"):
            return _table(objects, held, short, is_batch=kind == "SimpleRecordBatch")
        if kind.endswith("Array"):
            return _of_parts(objects, short, (objects.word(held + _ARRAY_DATA_AT),))
    return None


def type_of(objects: Objects, address: int) -> int:
    """Return the type of C++ of an object that is a type of pyarrow, 0 for another object."""
    if "pyarrow.lib.DataType" not in objects.bases(address):
        return 0
    return next((held for held, kind in _held(objects, address) if kind.endswith("Type")), 0)


def fields_of(objects: Objects, address: int) -> list[tuple[str, int]] | None:
    """Return names and types of the fields of a schema of pyarrow, None for another object."""
    if objects.type_name(address) != f"{_MODULE}Schema":
        return None
    for held, kind in _held(objects, address):
        if kind == "Schema":
            return _fields(objects, held)
    return None


def _held(objects: Objects, address: int) -> Iterator[tuple[int, str]]:
    """Yield the objects of Arrow's in the fields of an object, with the names of their types."""
    size = min(objects.base_bytes(address), _MOST_FIELD_BYTES)
    fields = objects.words(address + _FIRST_FIELD, (size - _FIRST_FIELD) // 8)
    for place, block in itertools.pairwise(fields):
        if name := class_name(objects, place):
            yield place, name
        elif _CHUNKED in _symbol(objects, block):
            yield place, "ChunkedArray"


def class_name(objects: Objects, address: int) -> str:
    """Return the name of the class of an object of Arrow's, empty for something else.

    >>> _NAME.match("N5arrow12NumericArrayINS_9Int64TypeEEE")[1]
    'NumericArray'
    """
    match = _NAME.match(_symbol(objects, address))
    return match[1] if match else ""


def _symbol(objects: Objects, address: int) -> str:
    """Return the name of the type of an object with virtual functions, empty for something else."""
    if not address or address & 7:
        return ""
    try:
        table = objects.word(address)
        return objects.c_text(objects.word(objects.word(table - 8) + 8)) if table > 8 else ""
    except (UnknownError, OverflowError):
        return ""


def _pointers(objects: Objects, at: int, most: int) -> tuple[int, ...]:
    """Return the objects of a vector of shared pointers."""
    begin, end = objects.words(at, 2)
    count = (end - begin) // _POINTER_BYTES
    if not 0 <= count <= most:
        raise UnknownError("the object of Arrow is damaged, or of another version")
    return objects.words(begin, 2 * count)[::2]


def _of_parts(objects: Objects, name: str, parts: tuple[int, ...]) -> ArrowArray:
    first = part_at(objects, parts[0])
    return ArrowArray(name, first.kind, first.length, parts)


def _chunked(objects: Objects, held: int, name: str) -> ArrowArray:
    arrays = _pointers(objects, held, _MOST_CHUNKS)
    kind, length = (objects.word(held + at) for at in (_CHUNKED_TYPE_AT, _CHUNKED_LENGTH_AT))
    _check_type(objects, kind)
    parts = tuple(objects.word(each + _ARRAY_DATA_AT) for each in arrays)
    return ArrowArray(name, kind, length, parts)


def _table(objects: Objects, held: int, name: str, *, is_batch: bool) -> ArrowTable:
    columns = _pointers(objects, held + _COLUMNS_AT, _MOST_COLUMNS)
    fields = _fields(objects, objects.word(held + _SCHEMA_AT))
    found = [
        _of_parts(objects, "Array", (each,))
        if is_batch
        else _chunked(objects, each, "ChunkedArray")
        for each in columns
    ]
    if len(fields) != len(found):
        raise UnknownError("the table of Arrow is damaged, or of another version")
    names = [each for each, _ in fields]
    return ArrowTable(name, objects.word(held + _ROWS_AT), tuple(zip(names, found, strict=True)))


def _fields(objects: Objects, schema: int) -> list[tuple[str, int]]:
    places = _pointers(objects, objects.word(schema + _SCHEMA_FIELDS_AT), _MOST_COLUMNS)
    return [
        (_text(objects, each + _FIELD_NAME_AT), objects.word(each + _FIELD_TYPE_AT))
        for each in places
    ]


def _text(objects: Objects, at: int) -> str:
    """Return a text of C++."""
    place, size = objects.words(at, 2)
    if size > 1 << 16:
        raise UnknownError("a name of Arrow is damaged, or of another version")
    return objects.read(place, size).decode("utf-8", "replace")


def _check_type(objects: Objects, kind: int) -> None:
    if not class_name(objects, kind).endswith("Type"):
        raise UnknownError("the layout of this version of Arrow is not known")


def part_at(objects: Objects, data: int) -> Part:
    """Return the data of one array.

    :raises UnknownError: if they cannot be read.
    """
    kind = objects.word(data)
    _check_type(objects, kind)
    return Part(
        kind=kind,
        length=objects.word(data + _LENGTH_AT),
        offset=objects.word(data + _OFFSET_AT),
        can_have_nulls=objects.word(data + _NULLS_AT) != 0,
        buffers=_pointers(objects, data + _BUFFERS_AT, _MOST_BUFFERS),
        dictionary=objects.word(data + _DICTIONARY_AT),
    )


def bytes_at(objects: Objects, buffer: int) -> tuple[int, int]:
    """Return the address of the bytes of a buffer, and their number.

    :raises UnknownError: if they are in the memory of a device.
    """
    if not objects.read(buffer + _IS_CPU_AT, 1)[0]:
        raise UnknownError("the values are in the memory of a device")
    return objects.word(buffer + _BYTES_AT), objects.word(buffer + _SIZE_AT)


def unit(objects: Objects, kind: int) -> str:
    """Return the unit of a type of times."""
    number = objects.integer32(kind + _PARAMETERS_AT)
    if not 0 <= number < len(UNITS):
        raise UnknownError("the unit of the times is not known")
    return UNITS[number]


def numbers_type(objects: Objects, kind: int) -> int:
    """Return the type of the numbers of a dictionary's type."""
    return objects.word(kind + _NUMBERS_TYPE_AT)


def type_text(objects: Objects, kind: int, depth: int = 0) -> str:
    """Return a type in words, such as ``timestamp[us, tz=UTC]``."""
    name = class_name(objects, kind)
    if name in _PLAIN:
        return _PLAIN[name]
    if name in _WITH_UNIT:
        zone = _text(objects, kind + _ZONE_AT) if name == "TimestampType" else ""
        return f"{_WITH_UNIT[name]}[{unit(objects, kind)}{f', tz={zone}' * bool(zone)}]"
    if name == "DictionaryType":
        values = objects.word(kind + _DICTIONARY_TYPE_AT)
        _check_type(objects, values)
        return f"dictionary<{type_text(objects, values, depth + 1)}>"
    if name in _WITH_CHILDREN and depth < _MOST_DEPTH:
        fields = _pointers(objects, kind + _CHILDREN_AT, _MOST_COLUMNS)
        types = (objects.word(each + _FIELD_TYPE_AT) for each in fields)
        inner = ", ".join(type_text(objects, each, depth + 1) for each in types)
        return f"{_WITH_CHILDREN[name]}<{inner}>"
    return _WITH_CHILDREN.get(name) or name.removesuffix("Type").lower() or "unknown"
