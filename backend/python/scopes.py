"""The variables that a Python frame can see: its own, those of enclosing functions, and globals.

py-spy shows the plain local variables alone. A variable that an inner function uses is in a cell,
and a frame has the cells of the functions around it. All is read from the memory of a process. The
layouts are those of CPython 3.8 to 3.15 for 64-bit processors, with the GIL.

A frame is found by its thread and its place in the stack, and counts only where all functions of
the stack have the names that py-spy has shown: a wrong offset finds nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import msgspec

from pgdb.backend.python import runtime
from pgdb.backend.python.coroutines import type_or_nothing
from pgdb.backend.python.objects import Objects, UnknownError
from pgdb.backend.python.reader import Local, PythonFrame, PythonThread
from pgdb.backend.python.runtime import Memory

HEAD = {8: 32, 9: 32, 10: 32, 11: 40, 12: 40}
"""Offset of the first interpreter in the state of the runtime, by minor version (x86-64)."""
_FIRST_THREAD_AT = {8: 8, 9: 8, 10: 8, 11: 16, 12: 72}
_NEXT_THREAD_AT, _FRAME_AT, _LINK_AT = 8, 24, 56
"""Offsets in the state of a thread: the next one, and its frame, which is behind a link in Python
3.11 and 3.12."""
_THREAD_BYTES = 512
"""Size of the part of a thread's state that has its number."""
_OWNED_BY_INTERPRETER = 3
_TAGS = 3
_OPTIMIZED = 1
"""Flag of code whose variables are no dictionary."""
_CELL, _FREE = 0x40, 0x80
_MOST_THREADS = 10_000
_MOST_FRAMES = 20_000


class Scope(msgspec.Struct, frozen=True):
    """The variables of a frame, by name: the address of the value, 0 for one without a value."""

    own: dict[str, int]
    """Variables of the function, with those of enclosing functions that it uses."""
    globals: int
    """Address of the dictionary of the globals."""


class _Layout(msgspec.Struct, frozen=True):
    """Offsets in a frame."""

    previous: int
    code: int
    globals: int
    dictionary: int
    """The variables of code that keeps them in a dictionary."""


def _layout(minor: int) -> _Layout:
    if minor < 11:
        return _Layout(previous=24, code=32, globals=48, dictionary=56)
    if minor == 11:
        return _Layout(previous=48, code=32, globals=8, dictionary=24)
    return _Layout(previous=8, code=0, globals=24, dictionary=40)


def frames_of(
    objects: Objects, memory: Memory, runtime_at: int, thread: PythonThread
) -> tuple[int, ...]:
    """Return the addresses of the frames of a thread, innermost first; none if they are unknown.

    :raises UnknownError: if the memory cannot be read.
    """
    try:
        for state, first in _threads(objects, memory, runtime_at):
            if _is_of(memory, state, thread.thread_id):
                found = tuple(_chain(objects, first))
                names = [_name(objects, each) for each in found]
                if names == [each.name for each in thread.frames]:
                    return found
    except ValueError as error:
        raise UnknownError(f"the frames of the interpreter cannot be read: {error}") from None
    return ()


def _threads(objects: Objects, memory: Memory, runtime_at: int) -> Iterator[tuple[int, int]]:
    """Yield the state of each thread and its innermost frame."""
    known = runtime.offsets(memory, runtime_at)
    if known is not None:
        for each in runtime.thread_states(memory, known)[1]:
            yield each, objects.word(each + known.fields["thread.current_frame"])
        return
    minor = objects.minor
    if minor not in HEAD or not runtime_at:
        return
    interpreter = objects.word(runtime_at + HEAD[minor])
    seen = 0
    while interpreter and seen < _MOST_THREADS:
        state = objects.word(interpreter + _FIRST_THREAD_AT[minor])
        while state and seen < _MOST_THREADS:
            seen += 1
            if minor < 11:
                yield state, objects.word(state + _FRAME_AT)
            else:
                link = objects.word(state + _LINK_AT)
                yield state, objects.word(link + (8 if minor == 11 else 0)) if link else 0
            state = objects.word(state + _NEXT_THREAD_AT)
        interpreter = objects.word(interpreter)


def _is_of(memory: Memory, state: int, number: int) -> bool:
    data = memory(state, _THREAD_BYTES)
    count = len(data) // 8
    return number in struct.unpack(f"<{count}Q", data[: 8 * count])


def _chain(objects: Objects, frame: int) -> Iterator[int]:
    """Yield the frames of Python from an innermost one on, without those of the interpreter."""
    minor, layout = objects.minor, _layout(objects.minor)
    owner_at = 74 if minor >= 14 else 70
    for _ in range(_MOST_FRAMES):
        if not frame:
            return
        is_own = minor >= 12 and objects.read(frame + owner_at, 1)[0] >= _OWNED_BY_INTERPRETER
        if not is_own:
            yield frame
        frame = objects.word(frame + layout.previous)


def _code(objects: Objects, frame: int) -> int:
    code = objects.word(frame + _layout(objects.minor).code) & ~_TAGS
    if type_or_nothing(objects, code) != "code":
        raise UnknownError("the frame has no code")
    return code


def _name(objects: Objects, frame: int) -> str:
    code = _code(objects, frame)
    return objects.text(objects.word(code + (112 if objects.minor < 11 else 128)))


def scope_of(objects: Objects, frame: int) -> Scope:
    """Return the variables that a frame sees.

    :raises UnknownError: if the memory cannot be read.
    """
    layout, code = _layout(objects.minor), _code(objects, frame)
    own = dict(_slots(objects, frame, code))
    flags = objects.integer32(code + (36 if objects.minor < 11 else 48))
    globals_at, table = (objects.word(frame + at) for at in (layout.globals, layout.dictionary))
    is_apart = not flags & _OPTIMIZED and table != globals_at
    if is_apart and type_or_nothing(objects, table) == "dict":
        # The body of a class, or code of exec with variables of its own.
        own |= {
            objects.text(key): value
            for key, value in objects.items(table)
            if type_or_nothing(objects, key) == "str"
        }
    return Scope(own, globals_at)


def _slots(objects: Objects, frame: int, code: int) -> Iterator[tuple[str, int]]:
    """Yield the names and the values of the slots of a frame."""
    minor = objects.minor
    if minor < 11:
        plain, free, cells = (
            objects.elements(objects.word(code + offset)) for offset in (72, 80, 88)
        )
        names = (*plain, *cells, *free)
        # The stack of values begins behind the slots.
        begin = objects.word(frame + 64) - 8 * len(names)
        kinds = bytes(len(plain)) + bytes([_CELL]) * (len(names) - len(plain))
    else:
        names = objects.elements(objects.word(code + 96))
        begin = frame + (80 if minor >= 14 else 72)
        table = objects.word(code + 104)
        kinds = objects.read(table + 32, len(names)) if names else b""
    for name, kind, value in zip(names, kinds, objects.words(begin, len(names)), strict=True):
        at = value & ~_TAGS
        # An argument moves to its cell when the function begins.
        if kind & (_CELL | _FREE) and type_or_nothing(objects, at) == "cell":
            at = objects.word(at + 16)
        yield objects.text(name), at


def all_locals(frame: PythonFrame, scope: Scope) -> list[Local]:
    """Return the variables of a frame, each in the place of its cell, and those of its scope that
    py-spy has not shown."""
    shown = frame.locals or ()
    known = [
        Local(each.name, at, each.arg)
        if (at := scope.own.get(each.name, 0)) and _is_cell(each)
        else each
        for each in shown
    ]
    names = {each.name for each in shown}
    return known + [Local(name, at) for name, at in scope.own.items() if at and name not in names]


def _is_cell(local: Local) -> bool:
    return (local.repr or "").startswith("<cell at ")
