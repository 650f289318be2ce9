"""Elements of arrays of NumPy that are no numbers: texts, objects, dates, structures."""

from __future__ import annotations

import itertools
import math
import struct

import msgspec

from pgdb.backend.python import object_text
from pgdb.backend.python.arrays import ArrayPlace, NoNumbersError, dtype_of
from pgdb.backend.python.objects import Key, Objects, UnknownError

_MOST_DIMENSIONS = 32
_STRUCTURE_AT = 24
"""Offset of the place of a single structure in its object; its type is behind it."""
_OTHER_NAMES = {"O": "object", "M": "datetime64", "m": "timedelta64", "V": "void"}
_MOST_ITEM_BYTES = 4096
_MOST_OF_ELEMENT = 20
"""Most elements of a container that is an element of an array."""
_MOST_FIELDS = 200
_MOST_DEPTH = 4
_MOST_IN_FIELD = 1000
_UNITS = ("Y", "M", "W", "", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "")
"""Units of dates and of spans of time by their numbers; the last one is that of no unit."""
_UNIT_AT = 32
"""Offset of the unit in the data that belong to a type of dates."""
_NUMBERS = {
    "?": "?",
    "b": "b",
    "B": "B",
    "h": "h",
    "H": "H",
    "i": "i",
    "I": "I",
    "l": "q",
    "L": "Q",
    "q": "q",
    "Q": "Q",
    "e": "e",
    "f": "f",
    "d": "d",
}


class OtherArray(msgspec.Struct, frozen=True):
    """Texts, objects or other elements of an array of NumPy that are no numbers."""

    element_name: str
    shape: tuple[int, ...]
    elements: tuple[str, ...] | None
    """The first elements as Python writes them, None if they are of another kind."""


class _Described(msgspec.Struct, frozen=True):
    """The type of the elements of an array."""

    letter: str
    order: str
    size_bytes: int
    address: int
    is_of_numpy_1: bool


def structures(objects: Objects, address: int) -> ArrayPlace | None:
    """Return the place of the structures of an array of NumPy, or of a single structure; None for
    another object.

    :raises UnknownError: if the elements are no structures.
    """
    name = objects.type_name(address)
    bases = objects.bases(address)
    if "numpy.void" in bases:
        data, described = objects.words(address + _STRUCTURE_AT, 2)
        shape: tuple[int, ...] = ()
        strides: tuple[int, ...] = ()
        name = "numpy.ndarray"  # that of a field with several elements
    elif "numpy.ndarray" in bases:
        data, count = objects.word(address + 16), objects.word(address + 24) & 0xFFFFFFFF
        if count > _MOST_DIMENSIONS:
            return None
        described = objects.word(address + 56)
        shape = objects.words(objects.word(address + 32), count)
        strides = struct.unpack(f"<{count}q", objects.read(objects.word(address + 40), 8 * count))
    else:
        return None
    kind = _described(objects, described)
    if kind.letter != "V" or not 0 < kind.size_bytes:
        return None
    _fields(objects, kind)  # raises an error where the elements have none
    return ArrayPlace(name, f"|V{kind.size_bytes}", shape, strides, data, described)


def field(objects: Objects, place: ArrayPlace, key: Key) -> ArrayPlace:
    """Return the place of a field of structures.

    :param key: its name, or its number.

    :raises UnknownError: if there is none of numbers or structures.
    """
    fields = _fields(objects, _described(objects, place.structure))
    names = [each for each, _, _ in fields]
    name = names[key] if isinstance(key, int) and -len(names) <= key < len(names) else key
    if name not in names:
        raise UnknownError(f"the structures have no field {key!r}; they have {', '.join(names)}")
    _, kind, offset = fields[names.index(str(name))]
    shape, strides = place.shape, place.strides
    if (inner := _subarray(objects, kind)) is not None:
        kind, lengths = inner
        steps = [kind.size_bytes * math.prod(lengths[at + 1 :]) for at in range(len(lengths))]
        shape, strides = (*shape, *lengths), (*strides, *steps)
    made = msgspec.structs.replace(
        place, shape=shape, strides=strides, address=place.address + offset
    )
    if kind.letter == "V":
        return msgspec.structs.replace(made, dtype=f"|V{kind.size_bytes}", structure=kind.address)
    dtype = dtype_of(kind.letter, kind.order)
    if dtype is None:
        raise NoNumbersError(f"the field {name!r} with elements {kind.letter!r} has no numbers")
    return msgspec.structs.replace(made, dtype=dtype, structure=0)


def of_structures(objects: Objects, place: ArrayPlace, most: int) -> OtherArray:
    """Return the first structures of an array."""
    kind = _described(objects, place.structure)
    return _first(objects, kind, place.address, place.shape, place.strides, most)


def others(objects: Objects, address: int, most: int, row: int | None = None) -> OtherArray:
    """Return the first elements of an array of NumPy whose elements are no numbers.

    :param row: the row that is wanted, None for all.
    """
    data, count = objects.word(address + 16), objects.word(address + 24) & 0xFFFFFFFF
    shape = objects.words(objects.word(address + 32), min(count, _MOST_DIMENSIONS))
    strides = struct.unpack(
        f"<{len(shape)}q", objects.read(objects.word(address + 40), 8 * len(shape))
    )
    kind = _described(objects, objects.word(address + 56))
    if row is not None:
        data += row * strides[0]
        shape, strides = shape[1:], strides[1:]
    return _first(objects, kind, data, shape, strides, most)


def _first(
    objects: Objects,
    kind: _Described,
    data: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    most: int,
) -> OtherArray:
    places = [
        data + sum(at * step for at, step in zip(index, strides, strict=True))
        for index in itertools.islice(itertools.product(*map(range, shape)), most)
    ]
    try:
        elements = tuple(_element(objects, each, kind, 0) for each in places)
    except UnknownError:
        return OtherArray(_name(objects, kind), shape, None)
    return OtherArray(_name(objects, kind), shape, elements)


def _described(objects: Objects, address: int) -> _Described:
    letter, order = (chr(each) for each in objects.read(address + 25, 2))
    # NumPy 1 has the size in 32 bits, and the alignment behind it; NumPy 2 has flags there.
    size_1, alignment_1 = struct.unpack("<2i", objects.read(address + 32, 8))
    size_2, alignment_2 = objects.words(address + 40, 2)
    # In NumPy 1 these are pointers, of the subarray and the fields.
    is_1 = not (0 < alignment_2 <= 64) and 0 < alignment_1 <= 64
    return _Described(letter, order, size_1 if is_1 else size_2, address, is_1)


def _name(objects: Objects, kind: _Described) -> str:
    if kind.letter == "U":
        return f"str of {kind.size_bytes // 4} characters"
    if kind.letter == "S":
        return f"bytes of {kind.size_bytes}"
    if kind.letter in "Mm":
        try:
            many, unit = _unit(objects, kind)
        except UnknownError:
            return _OTHER_NAMES[kind.letter]
        if unit:
            return f"{_OTHER_NAMES[kind.letter]}[{many if many > 1 else ''}{unit}]"
    if kind.letter == "V":
        try:
            return f"({', '.join(name for name, _, _ in _fields(objects, kind))})"
        except UnknownError:
            pass
    return _OTHER_NAMES.get(kind.letter, f"elements {kind.letter!r}")


def _unit(objects: Objects, kind: _Described) -> tuple[int, str]:
    data = objects.word(kind.address + (72 if kind.is_of_numpy_1 else 112))
    base, many = struct.unpack("<2i", objects.read(data + _UNIT_AT, 8))
    if not 0 <= base < len(_UNITS) or many < 1:
        raise UnknownError("the unit of the dates is not known")
    return many, _UNITS[base]


def _fields(objects: Objects, kind: _Described) -> list[tuple[str, _Described, int]]:
    """Return names, types and offsets of the fields of a structure."""
    at = kind.address + (48 if kind.is_of_numpy_1 else 96)
    table, names = objects.words(at, 2)
    if not table or not names or not objects.is_a(names, "tuple"):
        raise UnknownError("the elements are no structures")
    found = []
    for each in objects.elements(names)[:_MOST_FIELDS]:
        name = objects.text(each)
        held = objects.find(objects.items(table), name)
        if held is None or not objects.is_a(held, "tuple"):
            raise UnknownError(f"the field {name!r} is not known")
        described, offset = objects.elements(held)[:2]
        found.append((name, _described(objects, described), objects.integer(offset)))
    return found


def _subarray(objects: Objects, kind: _Described) -> tuple[_Described, tuple[int, ...]] | None:
    """Return type and shape of the elements of a field that is an array, None for another."""
    array = objects.word(kind.address + (40 if kind.is_of_numpy_1 else 88))
    if not array:
        return None
    base, shape = objects.words(array, 2)
    if not objects.is_a(shape, "tuple"):
        raise UnknownError("the shape of a field is not known")
    lengths = tuple(objects.integer(each) for each in objects.elements(shape))
    if min(lengths, default=0) < 0 or math.prod(lengths) > _MOST_IN_FIELD:
        raise UnknownError("the array in a field is too large")
    return _described(objects, base), lengths


def _rows(
    objects: Objects, place: int, kind: _Described, shape: tuple[int, ...], depth: int
) -> str:
    """Return the elements of an array whose elements are neighbours in memory."""
    if not shape:
        return _element(objects, place, kind, depth)
    step = kind.size_bytes * math.prod(shape[1:])
    rows = (
        _rows(objects, place + number * step, kind, shape[1:], depth) for number in range(shape[0])
    )
    return f"[{', '.join(rows)}]"


def _element(objects: Objects, place: int, kind: _Described, depth: int) -> str:
    if not 0 <= kind.size_bytes <= _MOST_ITEM_BYTES or depth > _MOST_DEPTH:
        raise UnknownError("the elements are too large")
    if kind.letter == "O":
        return object_text.shown(objects, objects.word(place), _MOST_OF_ELEMENT).text
    if kind.letter == "V":
        if (inner := _subarray(objects, kind)) is not None:
            return _rows(objects, place, *inner, depth + 1)
        fields = _fields(objects, kind)
        parts = [_element(objects, place + at, each, depth + 1) for _, each, at in fields]
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    data = objects.read(place, kind.size_bytes)
    if kind.letter == "S":
        return repr(data.rstrip(b"\0"))
    order = ">" if kind.order == ">" else "<"
    if kind.letter == "U":
        encoding = "utf-32-be" if order == ">" else "utf-32-le"
        return repr(data.decode(encoding, "replace").rstrip("\0"))
    if kind.letter in "Mm":
        return _date(objects, kind, struct.unpack(f"{order}q", data)[0])
    if kind.letter in _NUMBERS:
        return repr(struct.unpack(order + _NUMBERS[kind.letter], data)[0])
    raise UnknownError(f"elements {kind.letter!r} have no text")


def _date(objects: Objects, kind: _Described, value: int) -> str:
    # Imported only here: it takes 0.1 s and 20 MB, and most sessions read no array.
    import numpy

    many, unit = _unit(objects, kind)
    if kind.letter == "m":
        return "NaT" if value == -(1 << 63) else f"{value * many} {unit}".rstrip()
    if not unit:
        return str(value)
    return str(numpy.int64(value).astype(f"M8[{many}{unit}]"))
