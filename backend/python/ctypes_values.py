"""Values of ctypes: numbers, texts, structures, unions and arrays of C."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from pgdb.backend.python.arrays import ArrayPlace
from pgdb.backend.python.object_text import Shown
from pgdb.backend.python.objects import Key, Objects, UnknownError

_TYPE_AT, _DATA_AT, _SIZE_AT = 8, 16, 40
"""Offsets of the type, the pointer to the data, and the size in an object of ctypes."""
_PLACE_IN_FIELD, _SIZE_IN_FIELD = 16, 24
"""Offsets of place and size of a field in its descriptor."""
_LAST_PACKED = 13
"""Last minor version of Python whose descriptors have the bits of a field in the words of its
size: their number in the upper half, and that of those before them."""
_NUMBERS = {
    "b": "|i1",
    "B": "|u1",
    "h": "<i2",
    "H": "<u2",
    "i": "<i4",
    "I": "<u4",
    "l": "<i8",
    "L": "<u8",
    "q": "<i8",
    "Q": "<u8",
    "f": "<f4",
    "d": "<f8",
    "?": "|b1",
}
_CHARACTER, _TEXT = "c", "z"
_SIGNED = "bhilq"
_STRUCTURES = ("_ctypes.Structure", "_ctypes.Union")
_ARRAY, _POINTER = "_ctypes.Array", "_ctypes._Pointer"
_MOST_TEXT, _MOST_DIMENSIONS, _MOST_FIELDS, _MOST_DEPTH = 200, 8, 200, 6


class Field(msgspec.Struct, frozen=True):
    """A value of C: its type, an object of Python, and its place."""

    kind: int
    place: int
    size_bytes: int = 0
    """0 for a value behind a pointer, whose size is not known."""
    bits: tuple[int, int] | None = None
    """Number of the bits, and of those before them, of a field of bits."""


def whole(objects: Objects, address: int) -> Field | None:
    """Return the value of C that an object of ctypes has, None for another object."""
    if "_ctypes._CData" not in objects.bases(address):
        return None
    kind, place = objects.words(address + _TYPE_AT, 2)
    return Field(kind, place, objects.word(address + _SIZE_AT))


def numbers(objects: Objects, value: Field) -> ArrayPlace | None:
    """Return the place of a number or of an array of numbers, None for another value.

    :raises UnknownError: if the type cannot be read.
    """
    kind = value.kind
    shape: list[int] = []
    while _ARRAY in objects.bases_of_type(kind) and len(shape) < _MOST_DIMENSIONS:
        shape.append(objects.integer(_of_type(objects, kind, "_length_")))
        kind = _of_type(objects, kind, "_type_")
    dtype = _NUMBERS.get(_letter(objects, kind))
    if dtype is None or value.bits is not None:
        return None
    strides, step = [], int(dtype[2:])
    for size in reversed(shape):
        strides.append(step)
        step *= size
    name = objects.name_of_type(value.kind)
    return ArrayPlace(name, dtype, tuple(shape), tuple(strides[::-1]), value.place)


def field(objects: Objects, value: Field, name: str) -> Field:
    """Return a field of a structure or a union.

    :raises UnknownError: if there is none.
    """
    found = dict(_fields(objects, value)).get(name)
    if found is None:
        raise UnknownError(f"{objects.name_of_type(value.kind)} has no field {name!r}")
    return found


def fields(objects: Objects, value: Field) -> list[tuple[str, Field]] | None:
    """Return the fields of a structure or a union by name, None for another value."""
    if not {*_STRUCTURES} & {*objects.bases_of_type(value.kind)}:
        return None
    return list(_fields(objects, value))


def text_of(objects: Objects, value: Field) -> str | None:
    """Return the text of characters, None for another value."""
    if _letter(objects, value.kind) == _TEXT:
        place = objects.word(value.place)
        return _text_at(objects, place) if place else "None"
    if value.bits is not None:
        return str(_number_of_bits(objects, value, value.bits))
    if _ARRAY in objects.bases_of_type(value.kind):
        inner = _of_type(objects, value.kind, "_type_")
        count = objects.integer(_of_type(objects, value.kind, "_length_"))
        if _letter(objects, inner) == _CHARACTER and 0 <= count <= 1 << 16:
            data = objects.read(value.place, count).partition(b"\0")[0]
            return repr(data[:_MOST_TEXT]) + "..." * (len(data) > _MOST_TEXT)
    return None


def _text_at(objects: Objects, place: int) -> str:
    data = b""
    while b"\0" not in data and len(data) < _MOST_TEXT:
        data += objects.read(place + len(data), 8 - (place + len(data)) % 8)
    return repr(data.partition(b"\0")[0])


def _fields(objects: Objects, value: Field) -> Iterator[tuple[str, Field]]:
    if not {*_STRUCTURES} & {*objects.bases_of_type(value.kind)}:
        return
    # A structure has the fields of its base before its own.
    for each in reversed(objects.types_of(value.kind)):
        listed = objects.in_type(each, "_fields_")
        for described in objects.elements(listed) if listed is not None else ():
            kind = objects.elements(described)[1]
            name = objects.text(objects.elements(described)[0])
            if (found := objects.in_type(each, name)) is not None:
                has_bits = len(objects.elements(described)) > 2
                yield name, _field_of(objects, kind, value.place, found, has_bits=has_bits)


def _field_of(objects: Objects, kind: int, place: int, found: int, *, has_bits: bool) -> Field:
    """Return the field that a descriptor describes."""
    at, size_bytes = objects.word(found + _PLACE_IN_FIELD), objects.word(found + _SIZE_IN_FIELD)
    if not has_bits:
        return Field(kind, place + at, size_bytes)
    bits = (size_bytes >> 16, size_bytes & 0xFFFF) if objects.minor <= _LAST_PACKED else (0, 0)
    return Field(kind, place + at, bits=bits)


def _number_of_bits(objects: Objects, value: Field, bits: tuple[int, int]) -> int:
    """Return the number in a field of bits.

    :raises UnknownError: if their place is not known in this version of Python.
    """
    count, before = bits
    letter = _letter(objects, value.kind)
    size_bytes = int(_NUMBERS.get(letter, "|u0")[2:])
    if not 0 < count <= 8 * size_bytes - before:
        raise UnknownError("the place of the bits is not known")
    word = int.from_bytes(objects.read(value.place, size_bytes), "little") >> before
    number = word & ((1 << count) - 1)
    is_negative = letter in _SIGNED and number >> (count - 1)
    return number - (1 << count) if is_negative else number


def _letter(objects: Objects, kind: int) -> str:
    if "_ctypes._SimpleCData" not in objects.bases_of_type(kind):
        return ""
    return objects.text(_of_type(objects, kind, "_type_"))


def _of_type(objects: Objects, kind: int, name: str) -> int:
    for each in objects.types_of(kind):
        if (found := objects.in_type(each, name)) is not None:
            return found
    raise UnknownError(f"{objects.name_of_type(kind)} has no {name}")


def step(objects: Objects, value: Field, kind: str, key: Key) -> Field | None:
    """Return the value of C that a step leads to, None where it is an element of numbers.

    Steps are fields, the ``value`` of an object such as ``c_int``, the ``contents`` of a pointer,
    and elements of pointers and of arrays of other values than numbers.

    :raises UnknownError: if there is none.
    """
    if kind == "attribute":
        if key == "value" and _letter(objects, value.kind) in _NUMBERS:
            return value
        if key == "contents" and _is_pointer(objects, value):
            return _pointed(objects, value, 0)
        return field(objects, value, str(key))
    if not isinstance(key, int) or numbers(objects, value) is not None:
        return None
    if _is_pointer(objects, value):
        return _pointed(objects, value, key)
    if _ARRAY not in objects.bases_of_type(value.kind):
        return None
    count = objects.integer(_of_type(objects, value.kind, "_length_"))
    if not -count <= key < count:
        raise UnknownError(f"index {key} is outside of {count} elements")
    size_bytes = value.size_bytes // count
    if not size_bytes and key % count:
        raise UnknownError("the size of the elements is not known behind a pointer")
    inner = _of_type(objects, value.kind, "_type_")
    return Field(inner, value.place + key % count * size_bytes, size_bytes)


def _is_pointer(objects: Objects, value: Field) -> bool:
    return _POINTER in objects.bases_of_type(value.kind)


def _pointed(objects: Objects, value: Field, number: int) -> Field:
    """Return the value with a number, counted from the one that a pointer points to.

    :raises UnknownError: if it points to none, or to one of unknown size.
    """
    place = objects.word(value.place)
    if not place:
        raise UnknownError("the pointer is NULL")
    found = Field(_of_type(objects, value.kind, "_type_"), place)
    if not number:
        return found
    only = numbers(objects, found)
    if only is None:
        raise UnknownError("the size of the elements is not known behind a pointer")
    return msgspec.structs.replace(found, place=place + number * only.item_bytes * only.count)


def shown(
    objects: Objects, value: Field, number_text: Callable[[ArrayPlace], Shown], depth: int = 0
) -> Shown:
    """Return the text of a value; a pointer within another value shows its type alone.

    :param number_text: returns the text of numbers.
    """
    name = objects.name_of_type(value.kind).rpartition(".")[2]
    place = numbers(objects, value)
    if place is not None:
        return number_text(place)
    try:
        if (text := text_of(objects, value)) is not None:
            return Shown(text)
        if depth == 0 and _is_pointer(objects, value):
            if not objects.word(value.place):
                return Shown(f"<{name}; NULL>")
            inner = shown(objects, _pointed(objects, value, 0), number_text, 1)
            return Shown(f"<{name} to {inner.text}>", inner.is_cut)
    except UnknownError:
        return Shown(f"<{name}>", is_cut=True)
    if _ARRAY in objects.bases_of_type(value.kind) and value.size_bytes and depth <= _MOST_DEPTH:
        count = objects.integer(_of_type(objects, value.kind, "_length_"))
        places = range(min(count, _MOST_FIELDS))
        elements = [step(objects, value, "element", each) for each in places]
        parts = [shown(objects, each, number_text, depth + 1) for each in elements if each]
        is_cut = len(parts) < count or any(each.is_cut for each in parts)
        return Shown(f"{name}({', '.join(each.text for each in parts)})", is_cut)
    found = fields(objects, value)
    if found is None or depth > _MOST_DEPTH:
        return Shown(f"<{name}>", is_cut=True)
    named = [(each, shown(objects, inner, number_text, depth + 1)) for each, inner in found]
    inner_text = ", ".join(f"{each}={part.text}" for each, part in named[:_MOST_FIELDS])
    is_cut = len(named) > _MOST_FIELDS or any(part.is_cut for _, part in named)
    return Shown(f"{name}({inner_text})", is_cut)
