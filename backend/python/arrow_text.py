"""Values of the arrays and tables of Apache Arrow."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from pgdb.backend.python import array_text, arrow
from pgdb.backend.python.arrays import ArrayPlace, NoNumbersError
from pgdb.backend.python.arrow import ArrowArray, ArrowTable, Part
from pgdb.backend.python.object_text import Shown
from pgdb.backend.python.objects import Key, Objects, UnknownError

NULL = "null"
_NUMBERS = {
    "Int8Type": "|i1",
    "UInt8Type": "|u1",
    "HalfFloatType": "<f2",
    "FloatType": "<f4",
    "DoubleType": "<f8",
} | {
    f"{sign}Int{bits}Type": f"<{letter}{bits // 8}"
    for sign, letter in (("", "i"), ("U", "u"))
    for bits in (16, 32, 64)
}
_TEXTS = {"StringType": "i", "LargeStringType": "q", "BinaryType": "i", "LargeBinaryType": "q"}
"""Formats of the offsets of texts and bytes."""
_TIMES = {"Date32Type": "<i4", "Date64Type": "<i8", "TimestampType": "<i8", "DurationType": "<i8"}
_MOST_BYTES = 1 << 20
_MOST_TEXT = 10_000
_MOST_LABELS = 10_000


def place_of(objects: Objects, address: int) -> ArrayPlace | None:
    """Return the place of the numbers of an array of Arrow, None for another object.

    :raises UnknownError: if they are no numbers, or cannot be read.
    """
    array = arrow.find(objects, address)
    if not isinstance(array, ArrowArray):
        return None
    try:
        return numbers_of(objects, array)
    except NoNumbersError as error:
        raise NoNumbersError(f"the {array.name} has no array of numbers: {error}") from None


def numbers_of(objects: Objects, array: ArrowArray) -> ArrayPlace:
    """Return the place of the numbers of an array.

    :raises NoNumbersError: if it has none, or if some are missing.
    """
    parts = [each for each in _parts(objects, array) if each.length]
    dtype = _NUMBERS.get(arrow.class_name(objects, array.kind))
    if dtype is None:
        raise NoNumbersError(f"its elements are {arrow.type_text(objects, array.kind)}")
    if len(parts) != 1:
        raise NoNumbersError(f"its values are in {len(parts)} chunks")
    (part,) = parts
    if not all(_validity(objects, part, part.length)):
        raise NoNumbersError("some of its values are null")
    place, item = _fixed(objects, part, dtype)
    return ArrayPlace(array.name, dtype, (array.length,), (item,), place)


def step(objects: Objects, address: int, key: Key) -> ArrayPlace | None:
    """Return the place of a column of a table of Arrow, or of an element of an array.

    None for another object.

    :raises UnknownError: if there is none, or if it cannot be read.
    """
    found = arrow.find(objects, address)
    if found is None:
        return None
    if isinstance(found, ArrowArray):
        if not isinstance(key, int):
            return None
        try:
            return numbers_of(objects, found).element(key)
        except NoNumbersError as error:
            raise UnknownError(f"the {found.name} has no array of numbers: {error}") from None
    names = [name for name, _ in found.columns]
    number = key if isinstance(key, int) else names.index(key) if key in names else len(names)
    if not -len(names) <= number < len(names):
        raise UnknownError(f"the {found.name} has no column {key!r}")
    try:
        return numbers_of(objects, found.columns[number][1])
    except NoNumbersError as error:
        raise UnknownError(
            f"the column {key!r} has no array of numbers: {error}; the value of the {found.name} "
            "shows it"
        ) from None


def text_of(objects: Objects, address: int, most: int) -> Shown | None:
    """Return the text of an array, a table, a type or a schema of Arrow, None for another object.

    :raises UnknownError: if it cannot be read.
    """
    found = arrow.find(objects, address)
    if isinstance(found, ArrowTable):
        return _table_text(objects, found, most)
    if isinstance(found, ArrowArray):
        head = (
            f"{found.name} of {arrow.type_text(objects, found.kind)}, "
            f"shape {array_text.shape_text((found.length,))}"
        )
        texts = values(objects, found, most)
        if texts is None:
            return Shown(head, is_cut=True)
        listed = array_text.nested_texts(texts, (found.length,))
        return Shown(f"{head} = {listed}", len(texts) < found.length)
    if kind := arrow.type_of(objects, address):
        return Shown(f"DataType({arrow.type_text(objects, kind)})")
    fields = arrow.fields_of(objects, address)
    if fields is None:
        return None
    inner = ", ".join(f"{name}: {arrow.type_text(objects, kind)}" for name, kind in fields)
    return Shown(f"Schema({inner})")


def _table_text(objects: Objects, table: ArrowTable, most: int) -> Shown:
    parts: list[str] = []
    is_cut, left = False, most
    for name, column in table.columns:
        if left <= 0:
            is_cut = True
            parts.append("...")
            break
        texts = values(objects, column, left)
        if texts is None:
            is_cut = True
            texts = [f"<{arrow.type_text(objects, column.kind)}>"]
        inner = ", ".join(texts)
        if len(texts) < column.length and column.length:
            is_cut = True
            inner += "..."
        left -= max(len(texts), 1)
        parts.append(f"{name if name.isidentifier() else repr(name)} = {{{inner}}}")
    size = f"{table.row_count} row{'s' * (table.row_count != 1)}"
    return Shown(f"{table.name} of {size} = {{{', '.join(parts)}}}", is_cut)


def values(objects: Objects, array: ArrowArray, most: int) -> list[str] | None:
    """Return the texts of the first values of an array, None for values of an unknown kind.

    :raises UnknownError: if they cannot be read.
    """
    texts: list[str] = []
    for data in array.parts:
        if len(texts) >= most:
            break
        found = _values(objects, arrow.part_at(objects, data), most - len(texts))
        if found is None:
            return None
        texts += found
    return texts


def _parts(objects: Objects, array: ArrowArray) -> list[Part]:
    return [arrow.part_at(objects, each) for each in array.parts]


def _values(objects: Objects, part: Part, most: int) -> list[str] | None:
    count = min(part.length, most)
    name = arrow.class_name(objects, part.kind)
    if name == "NullType":
        return [NULL] * count
    valid = _validity(objects, part, count)
    texts: Sequence[str]
    if name == "DictionaryType":
        labelled = _labelled(objects, part, valid)
        if labelled is None:
            return None
        texts = labelled
    elif name == "BooleanType":
        texts = [str(each) for each in _bits(objects, part.buffers[1], part.offset, count)]
    elif dtype := _NUMBERS.get(name):
        texts = array_text.texts_of(dtype, _data(objects, part, dtype, count), count)
    elif name in _TIMES:
        texts = _times(objects, part, name, count)
    elif name in _TEXTS:
        texts = _texts(objects, part, name, valid)
    else:
        return None
    return [each if is_there else NULL for each, is_there in zip(texts, valid, strict=True)]


def _validity(objects: Objects, part: Part, count: int) -> list[bool]:
    """Return which of the first elements have a value."""
    if not part.can_have_nulls or not part.buffers or not part.buffers[0]:
        return [True] * count
    return _bits(objects, part.buffers[0], part.offset, count)


def _bits(objects: Objects, buffer: int, begin: int, count: int) -> list[bool]:
    place, size = arrow.bytes_at(objects, buffer)
    first, last = begin // 8, (begin + count + 7) // 8
    if last > size or last - first > _MOST_BYTES:
        raise UnknownError(f"{count} bits of an array of Arrow are not read")
    data = objects.read(place + first, last - first)
    at = begin - 8 * first
    return [bool(data[each // 8] >> each % 8 & 1) for each in range(at, at + count)]


def _fixed(objects: Objects, part: Part, dtype: str) -> tuple[int, int]:
    """Return the address of the first number of an array, and the size of each."""
    item = int(dtype[2:])
    place, size = arrow.bytes_at(objects, part.buffers[1])
    if (part.offset + part.length) * item > size:
        raise UnknownError("the array of Arrow is damaged, or of another version")
    return place + part.offset * item, item


def _data(objects: Objects, part: Part, dtype: str, count: int) -> bytes:
    place, item = _fixed(objects, part, dtype)
    return objects.read(place, count * item)


def _texts(objects: Objects, part: Part, name: str, valid: list[bool]) -> list[str]:
    letter = _TEXTS[name]
    item = struct.calcsize(f"<{letter}")
    ends_at, _ = arrow.bytes_at(objects, part.buffers[1])
    form = f"<{len(valid) + 1}{letter}"
    data = objects.read(ends_at + part.offset * item, struct.calcsize(form))
    ends = struct.unpack(form, data)
    place, size = arrow.bytes_at(objects, part.buffers[2]) if part.buffers[2] else (0, 0)
    found = []
    for begin, end, is_there in zip(ends, ends[1:], valid, strict=False):
        if not is_there:
            found.append(NULL)
            continue
        if not 0 <= begin <= end <= size or end - begin > _MOST_TEXT:
            raise UnknownError("a text of Arrow is too long, or is being changed")
        text = objects.read(place + begin, end - begin)
        found.append(repr(text.decode("utf-8", "replace") if "String" in name else text))
    return found


def _times(objects: Objects, part: Part, name: str, count: int) -> list[str]:
    # Imported only here: it takes 0.1 s and 20 MB, and most sessions read no array.
    import numpy

    dtype = _TIMES[name]
    numbers = numpy.frombuffer(_data(objects, part, dtype, count), dtype).astype("i8")
    if name == "DurationType":
        return [f"{each} {arrow.unit(objects, part.kind)}" for each in numbers.tolist()]
    units = {"Date32Type": "D", "Date64Type": "ms"}
    unit = units.get(name) or arrow.unit(objects, part.kind)
    return [str(each) for each in numbers.astype(f"M8[{unit}]")]


def _labelled(objects: Objects, part: Part, valid: list[bool]) -> list[str] | None:
    """Return the values whose numbers an array has."""
    dtype = _NUMBERS.get(arrow.class_name(objects, arrow.numbers_type(objects, part.kind)))
    if dtype is None or not part.dictionary:
        return None
    texts = array_text.texts_of(dtype, _data(objects, part, dtype, len(valid)), len(valid))
    chosen = [int(each) if is_there else -1 for each, is_there in zip(texts, valid, strict=True)]
    wanted = min(max(chosen, default=-1) + 1, _MOST_LABELS)
    known = _values(objects, arrow.part_at(objects, part.dictionary), wanted)
    if known is None or any(each >= len(known) for each in chosen):
        return None
    return [known[each] if each >= 0 else NULL for each in chosen]
