"""Coroutines and generators that wait: their frames, and the objects that they wait for.

All is read from the memory of a process. The layouts are those of CPython 3.8 to 3.15 for 64-bit
processors, with the GIL.
"""

from __future__ import annotations

import msgspec

from pgdb.backend.python.objects import Objects, UnknownError
from pgdb.backend.python.reader import PythonFrame

WITH_FRAME = ("coroutine", "generator", "async_generator")
"""Types of the objects that have a frame of their own."""
_WRAPPERS = (
    "coroutine_wrapper",
    "async_generator_asend",
    "async_generator_athrow",
    "anext_awaitable",
)
"""Objects that stand for the coroutine or generator in their first field."""
_FUTURE_ITERATORS = ("_asyncio.FutureIter", "FutureIter")
_FIRST_FIELD = 16
_MOST_DEPTH = 1000
_ADAPTIVE_AT = {11: 184, 12: 192, 13: 200, 14: 208, 15: 208}
"""Offset of the instructions in a code object, by the minor version of Python 3."""
_FIRST_FRAME_AT, _LAST_FRAME_AT = 64, 136
"""Offsets at which the frame inside of a coroutine can begin."""
_LAST_NAME_AT = 72
"""Offset behind those at which the name can be."""
_STATE_BEFORE = 5
"""Bytes between the state of a coroutine and its frame, which follows it (3.11 and later)."""
_COMPLETED = 1
_LAST_KNOWN_STATES = 14
"""Minor version of the last Python whose states have these numbers."""
_TAGS = 3
"""Bits of a reference that are no part of the address (Python 3.14 and later)."""
_NO_LOCATION, _LONG, _NO_COLUMNS = 15, 14, 13


class Waiting(msgspec.Struct, frozen=True):
    """A coroutine or a generator."""

    frame: PythonFrame
    awaited: int = 0
    """Address of the object that it waits for; 0 if it waits for none."""
    is_running: bool = False
    frame_at: int = 0
    """Address of the frame, where its variables are."""


class Chain(msgspec.Struct, frozen=True):
    """A coroutine, and those that it waits for."""

    frames: tuple[PythonFrame, ...]
    """Frames, innermost first."""
    awaited: int = 0
    """Address of the object that the innermost one waits for, 0 for none."""
    is_running: bool = False


def type_or_nothing(objects: Objects, address: int) -> str:
    """Return the name of the type of an object; nothing where there is no object."""
    if not address or address & 7:
        return ""
    try:
        return objects.type_name(address)
    except UnknownError:
        return ""


def chain(objects: Objects, address: int) -> Chain:
    """Return the frames of a coroutine and of those inside it.

    :raises UnknownError: if the memory cannot be read.
    """
    frames: list[PythonFrame] = []
    for _ in range(_MOST_DEPTH):
        kind = type_or_nothing(objects, address)
        if kind in _WRAPPERS:
            address = objects.word(address + _FIRST_FIELD)
            continue
        if kind in _FUTURE_ITERATORS:
            address = objects.word(address + _FIRST_FIELD)
            break
        found = waiting(objects, address) if kind in WITH_FRAME else None
        if found is None:
            break
        frames.append(found.frame)
        address = found.awaited
        if found.is_running:
            # The frames inside are on the stack of the thread.
            return Chain(tuple(reversed(frames)), is_running=True)
    return Chain(tuple(reversed(frames)), address)


def waiting(objects: Objects, address: int) -> Waiting | None:
    """Return the frame of a coroutine or generator, None if it has ended.

    :raises UnknownError: if the memory cannot be read.
    """
    if objects.minor < 11:
        return _with_frame_object(objects, address)
    for at in range(_FIRST_FRAME_AT, _LAST_FRAME_AT, 8):
        code = objects.word(address + at) & ~_TAGS
        if type_or_nothing(objects, code) == "code":
            frame = address + at - (32 if objects.minor == 11 else 0)
            state = int.from_bytes(objects.read(frame - _STATE_BEFORE, 1), "little", signed=True)
            if objects.minor <= _LAST_KNOWN_STATES and state >= _COMPLETED:
                return None
            return _with_frame(objects, frame, code)
    return None


def function_name(objects: Objects, address: int) -> str:
    """Return the name of the function of a coroutine or generator, which it has until its end.

    :raises UnknownError: if there is none.
    """
    for at in range(_FIRST_FIELD, _LAST_NAME_AT, 8):
        # The name and the qualified name are neighbours; no other field is a text.
        if type_or_nothing(objects, objects.word(address + at)) == "str":
            return objects.text(objects.word(address + at + 8))
    raise UnknownError("the function of the generator was not found")


def _with_frame(objects: Objects, frame: int, code: int) -> Waiting:
    """Return what a frame inside of a coroutine says (Python 3.11 and later)."""
    minor = objects.minor
    previous = objects.word(frame + (48 if minor == 11 else 8))
    at = objects.word(frame + 56) - code - _ADAPTIVE_AT[minor]
    line_at = 72 if minor == 11 else 68
    first, local_count = (objects.integer32(code + each) for each in (line_at, line_at + 4))
    table = _bytes(objects, objects.word(code + 136))
    shown = PythonFrame(
        name=objects.text(objects.word(code + 128)),
        filename=objects.text(objects.word(code + 112)),
        line=line_in_locations(table, first, at // 2),
    )
    if previous:
        return Waiting(shown, is_running=True, frame_at=frame)
    locals_at = frame + (80 if minor >= 14 else 72)
    if minor >= 14:
        top = objects.word(frame + 64)
    else:
        top = locals_at + 8 * objects.integer32(frame + 64)
    # Python 3.15 can have an empty place above the object.
    for place in (top - 8, top - 16):
        if place < locals_at + 8 * local_count:
            break
        awaited = objects.word(place) & ~_TAGS
        if type_or_nothing(objects, awaited):
            return Waiting(shown, awaited, frame_at=frame)
    return Waiting(shown, frame_at=frame)


def _with_frame_object(objects: Objects, address: int) -> Waiting | None:
    """Return what the frame object of a coroutine says (before Python 3.11)."""
    frame = objects.word(address + _FIRST_FIELD)
    if type_or_nothing(objects, frame) != "frame":
        return None
    code = objects.word(frame + 32)
    first = objects.integer32(code + 40)
    table = _bytes(objects, objects.word(code + 120))
    name = objects.word(address + (56 if objects.minor < 10 else 48))
    bottom = objects.word(frame + 64)
    if objects.minor < 10:
        at = objects.integer32(frame + 104)
        line = line_in_lnotab(table, first, at)
        top = objects.word(frame + 72)
        is_running = not top
    else:
        at = objects.integer32(frame + 96)
        line = line_in_ranges(table, first, 2 * at)
        depth = objects.integer32(frame + 80)
        top, is_running = bottom + 8 * depth, depth < 0
    shown = PythonFrame(
        name=objects.text(name),
        filename=objects.text(objects.word(code + 104)),
        line=first if at < 0 else line,
    )
    if is_running:
        return Waiting(shown, is_running=True, frame_at=frame)
    return Waiting(shown, objects.word(top - 8) if top > bottom else 0, frame_at=frame)


def _bytes(objects: Objects, address: int) -> bytes:
    size = objects.word(address + 16)
    if size > 1 << 24:
        raise UnknownError("the code is damaged, or is being changed")
    return objects.read(address + 32, size)


# -- tables of lines -------------------------------------------------------------------------------


def line_in_locations(table: bytes, first: int, unit: int) -> int:
    """Return the line of an instruction by its number, 0 for none (Python 3.11 and later).

    >>> code = compile("a\\nb\\n\\n\\nc", "", "exec")
    >>> sorted({line_in_locations(code.co_linetable, 1, at) for at in range(2, 8)})
    [1, 2, 5]
    """
    line, at, position = first, 0, 0
    while at < len(table):
        kind, length = table[at] >> 3 & 15, (table[at] & 7) + 1
        if kind in (_LONG, _NO_COLUMNS):
            line += _signed(table, at + 1)
        elif 10 <= kind < _NO_COLUMNS:
            line += kind - 10
        position += length
        if unit < position:
            return line if kind != _NO_LOCATION else 0
        at += 1
        # Only the first byte of an entry has the highest bit.
        while at < len(table) and not table[at] & 0x80:
            at += 1
    return first


def _signed(table: bytes, at: int) -> int:
    """Return a number of six bits in each byte, whose lowest bit is the sign."""
    value = shift = 0
    while at < len(table):
        value |= (table[at] & 0x3F) << shift
        shift += 6
        if not table[at] & 0x40:
            break
        at += 1
    return -(value >> 1) if value & 1 else value >> 1


def line_in_ranges(table: bytes, first: int, offset: int) -> int:
    """Return the line of an instruction by its offset in bytes, 0 for none (Python 3.10).

    >>> line_in_ranges(bytes([4, 1, 2, 0x80, 2, 0xFF]), 10, 6)
    10
    """
    line, end = first, 0
    for size, change in zip(table[::2], table[1::2], strict=False):
        end += size
        is_line = change != 0x80
        line += (change - 256 if change > 127 else change) if is_line else 0
        if offset < end:
            return line if is_line else 0
    return line


def line_in_lnotab(table: bytes, first: int, offset: int) -> int:
    """Return the line of an instruction by its offset in bytes (before Python 3.10).

    >>> line_in_lnotab(bytes([4, 1, 2, 3]), 10, 5)
    11
    """
    line, start = first, 0
    for size, change in zip(table[::2], table[1::2], strict=False):
        start += size
        if start > offset:
            break
        line += change - 256 if change > 127 else change
    return line
