"""Values of ctypes: numbers, texts, structures, unions and arrays of C."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from pgdb.backend.python.arrays import ArrayPlace
from pgdb.backend.python.object_text import Shown
from pgdb.backend.python.objects import Objects, UnknownError

_TYPE_AT, _DATA_AT = 8, 16
"""Offsets of the type, and of the pointer to the data in an object of ctypes; the latter is also
that of a field's place in its descriptor."""
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
_STRUCTURES = ("_ctypes.Structure", "_ctypes.Union")
_MOST_TEXT, _MOST_DIMENSIONS, _MOST_FIELDS, _MOST_DEPTH = 200, 8, 200, 6


class Field(msgspec.Struct, frozen=True):
    """A value of C: its type, an object of Python, and its place."""

    kind: int
    place: int


def whole(objects: Objects, address: int) -> Field | None:
    """Return the value of C that an object of ctypes has, None for another object."""
    if "_ctypes._CData" not in objects.bases(address):
        return None
    return Field(objects.word(address + _TYPE_AT), objects.word(address + _DATA_AT))


def numbers(objects: Objects, value: Field) -> ArrayPlace | None:
    """Return the place of a number or of an array of numbers, None for another value.

    :raises UnknownError: if the type cannot be read.
    """
    kind = value.kind
    shape: list[int] = []
    while "_ctypes.Array" in objects.bases_of_type(kind) and len(shape) < _MOST_DIMENSIONS:
        shape.append(objects.integer(_of_type(objects, kind, "_length_")))
        kind = _of_type(objects, kind, "_type_")
    dtype = _NUMBERS.get(_letter(objects, kind))
    if dtype is None:
        return None
    strides, step = [], int(dtype[2:])
    for size in reversed(shape):
        strides.append(step)
        step *= size
    name = objects.name_of_type(value.kind)
    return ArrayPlace(name, dtype, tuple(shape), tuple(strides[::-1]), value.place)


def field(objects: Objects, value: Field, name: str) -> Field:
    """Return a field of a structure or a union.

    :raises UnknownError: if there is none, or if it has bits of a number alone.
    """
    found = dict(_fields(objects, value)).get(name)
    if found is None:
        raise UnknownError(
            f"{objects.name_of_type(value.kind)} has no field {name!r} of whole bytes"
        )
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
    if "_ctypes.Array" in objects.bases_of_type(value.kind):
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
            parts = objects.elements(described)
            name = objects.text(parts[0])
            place = objects.in_type(each, name)
            if len(parts) == 2 and place is not None:
                yield name, Field(parts[1], value.place + objects.word(place + _DATA_AT))


def _letter(objects: Objects, kind: int) -> str:
    if "_ctypes._SimpleCData" not in objects.bases_of_type(kind):
        return ""
    return objects.text(_of_type(objects, kind, "_type_"))


def _of_type(objects: Objects, kind: int, name: str) -> int:
    for each in objects.types_of(kind):
        if (found := objects.in_type(each, name)) is not None:
            return found
    raise UnknownError(f"{objects.name_of_type(kind)} has no {name}")


def step(objects: Objects, value: Field, name: str) -> Field:
    """Return a field, or the number that an object such as ``c_int`` has as its ``value``.

    :raises UnknownError: if there is none.
    """
    if name == "value" and _letter(objects, value.kind) in _NUMBERS:
        return value
    return field(objects, value, name)


def shown(
    objects: Objects, value: Field, number_text: Callable[[ArrayPlace], Shown], depth: int = 0
) -> Shown:
    """Return the text of a value; a pointer shows its type alone.

    :param number_text: returns the text of numbers.
    """
    name = objects.name_of_type(value.kind).rpartition(".")[2]
    place = numbers(objects, value)
    if place is not None:
        return number_text(place)
    if (text := text_of(objects, value)) is not None:
        return Shown(text)
    found = fields(objects, value)
    if found is None or depth > _MOST_DEPTH:
        return Shown(f"<{name}>", is_cut=True)
    parts = [(each, shown(objects, inner, number_text, depth + 1)) for each, inner in found]
    inner_text = ", ".join(f"{each}={part.text}" for each, part in parts[:_MOST_FIELDS])
    is_cut = len(parts) > _MOST_FIELDS or any(part.is_cut for _, part in parts)
    return Shown(f"{name}({inner_text})", is_cut)
