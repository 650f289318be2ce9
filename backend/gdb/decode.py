"""Decoding of MI payloads into records; the only module that knows GDB's fields.

A field of an unexpected kind becomes an empty text, a 0 or nothing: one odd field must not cost
the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from pgdb.backend.gdb import gpu_words
from pgdb.backend.gdb.mi import MARK, Line
from pgdb.patterns import FORTRAN_FILE, pattern
from pgdb.records import ARROW, Exit, Frame, Stop, StopReason, Variable
from pgdb.source_paths import is_of_python_library, is_of_system

# The MPI interface under all its names: C, profiling layer, Fortran (pmpi_recv__, mpi_recv_),
# Fortran 2008, and Open MPI's functions that implement a whole call.
MPI_CALL = pattern(r"P?MPI_[A-Z]\w*$|p?mpi_[a-z][a-z0-9_]*$|ompi_mpi_(?:init|finalize|abort)$")

_REASONS: dict[str, StopReason] = {
    "breakpoint-hit": "breakpoint-hit",
    "watchpoint-trigger": "watchpoint-trigger",
    "read-watchpoint-trigger": "watchpoint-trigger",
    "access-watchpoint-trigger": "watchpoint-trigger",
    "watchpoint-scope": "watchpoint-scope",
    "end-stepping-range": "end-stepping-range",
    "function-finished": "function-finished",
    "location-reached": "location-reached",
    "exec": "exec",
    "signal-received": "signal-received",
}
# "-1.5", "0x7ffd", "0x401136 <main+4>", "97 'a'", "true", "BLUE", "nan(0x8000000000000)"
_PLAIN = pattern(r"-?[\w.+-]+(?:\(0x\w+\))?(?: '[^\"]*'| <[^\"]*>)?\Z|<optimized out>\Z")
# "Thread 0x7f45e3636740 (LWP 6597)", "process 6597" without thread support
_LWP = pattern(r"\b(?:LWP|process) (\d+)")
# "main + 15 in section .text of /home/user/app"
_INFO_SYMBOL = pattern(r"(\S.*?)(?: \+ (\d+))? in section ")
_FIELDS_OF_SIGNALS = ("signal-name", "signal-meaning")
_FIELDS_OF_BREAKPOINTS = ("bkptno", "disp", "wpt", "hw-awpt", "hw-rwpt", "value", "wpnum")
_WATCHPOINTS = ("wpt", "hw-rwpt", "hw-awpt")
_OF_WATCHPOINTS = frozenset(_WATCHPOINTS)
_OF_VALUES = frozenset((*_WATCHPOINTS, "return-value", "gdb-result-var"))
LEFT_OUT = "..."
"""Text in place of an argument's value that is left out, as GDB writes it."""
ABSENT = "<absent>"
"""Text in place of the value of an optional argument that the caller has not given."""
_NOT_READ = "<error reading variable: "
_NULL = f"{_NOT_READ}Cannot access memory at address 0x0>"
# Structures and arrays of C and of Fortran at the depth at which GDB prints no more.
_TOO_DEEP = frozenset({"{...}", "(...)"})


def variables(items: Sequence[Any]) -> tuple[Variable, ...]:
    """Decode a list of ``{name=,value=}``."""
    return tuple(
        Variable(
            name=str(item.get("name", "?")),
            value=str(item.get("value", "")),
            is_argument=item.get("arg") == "1",
        )
        for item in items
        if isinstance(item, Mapping)
    )


def frame(payload: Mapping[str, Any]) -> Frame:
    """Decode a ``frame={…}``."""
    file = str(payload.get("file", ""))
    # An argument that has lost its value has a second one, NAME@entry, with its value at entry;
    # both are shown, as by GDB.
    listed = arguments(sequence(payload.get("args")))
    return Frame(
        level=whole_number(payload.get("level", "0")),
        function=str(payload.get("func", "??")),
        arguments=_of_fortran(listed, whole=True)
        if listed and FORTRAN_FILE.search(file)
        else listed,
        file=file,
        fullname=str(payload.get("fullname", "")),
        line=whole_number(payload.get("line", "0")),
        library=str(payload.get("from", "")),
    )


def frames_of(line: Line) -> tuple[tuple[Frame, ...], tuple[int, ...]]:
    """Decode the result of -stack-list-frames: frames without arguments, and their addresses.

    Ranks at the same place share the frames.
    """
    shape = line.shape
    if shape is not None and shape.varying_count:
        if shape.frames is None:
            listed = sequence(shape.payload.get("stack"))
            is_plain = len(listed) == shape.varying_count and all(
                isinstance(each, dict) and each.get("addr") == MARK for each in listed
            )
            shape.frames = tuple(map(frame, listed)) if is_plain else ()
        if shape.frames:
            return shape.frames, tuple([int(each, 16) for each in line.varying])
    listed = [each for each in sequence(line.payload.get("stack")) if isinstance(each, Mapping)]
    return tuple(map(frame, listed)), addresses(listed)


def arguments_of(line: Line) -> Mapping[int, tuple[Variable, ...]]:
    """Decode the result of -stack-list-arguments: the arguments of each level that has any."""
    shape = line.shape
    if shape is None:
        return _arguments(line.payload)
    if shape.arguments is None:
        shape.arguments = _arguments(shape.payload)
    decoded: dict[int, tuple[Variable, ...]] = shape.arguments
    if not shape.varying_count:
        return decoded
    marks = sum(each.value.count(MARK) for items in decoded.values() for each in items)
    if marks != shape.varying_count:
        return _arguments(line.payload)
    take = iter(line.varying).__next__
    return {level: _filled(items, take) for level, items in decoded.items()}


def are_on_stack(frames: Sequence[Frame], line: Line) -> bool:
    """Return whether all values of arguments come from registers and the stack alone.

    Plain numbers and addresses do, except those of Fortran, which passes arguments by reference.
    References and strings are printed with the data that they refer to, and a pretty-printer may
    read any memory.
    """
    return not any(FORTRAN_FILE.search(each.file) for each in frames) and all(
        _PLAIN.match(item.value) for items in arguments_of(line).values() for item in items
    )


def arguments(items: Sequence[Any]) -> tuple[Variable, ...]:
    """Decode the arguments of one frame: a list of ``{name=,value=}``, or of names alone."""
    found = []
    for item in items:
        if isinstance(item, str):
            found.append(Variable(name=item, value=LEFT_OUT))
        elif isinstance(item, dict):
            value = str(item.get("value", ""))
            value = LEFT_OUT if value in _TOO_DEEP else value
            found.append(Variable(name=str(item.get("name", "?")), value=value))
    return tuple(found)


def _arguments(payload: Mapping[str, Any]) -> dict[int, tuple[Variable, ...]]:
    return {
        whole_number(each.get("level")): arguments(items)
        for each in sequence(payload.get("stack-args"))
        if isinstance(each, Mapping) and (items := sequence(each.get("args")))
    }


def _filled(items: Sequence[Variable], take: Callable[[], str]) -> tuple[Variable, ...]:
    filled = []
    for item in items:
        if MARK in item.value:
            first, *others = item.value.split(MARK)
            value = first + "".join([take() + each for each in others])
            item = Variable(name=item.name, value=value, is_argument=item.is_argument)
        filled.append(item)
    return tuple(filled)


def with_arguments(
    frames: Sequence[Frame], arguments: Mapping[int, tuple[Variable, ...]], *, whole: bool = False
) -> tuple[Frame, ...]:
    """Return the frames with the arguments of their levels; *whole* keeps strings of Fortran."""
    return tuple(
        [
            replace(each, arguments=_shown_in(each, arguments[each.level], whole))
            if each.level in arguments
            else each
            for each in frames
        ]
    )


def is_of_fortran(frame: Frame) -> bool:
    """Return whether a frame is of Fortran, by its source file."""
    return FORTRAN_FILE.search(frame.file) is not None


def _shown_in(each: Frame, items: tuple[Variable, ...], whole: bool) -> tuple[Variable, ...]:
    return _of_fortran(items, whole=whole) if FORTRAN_FILE.search(each.file) else items


def is_absent(argument: Variable) -> bool:
    """Return whether an argument of a Fortran procedure is an optional number that is absent."""
    return argument.value == _NULL


def _of_fortran(items: tuple[Variable, ...], *, whole: bool) -> tuple[Variable, ...]:
    """Return arguments without texts that depend on bounds which GDB may have read elsewhere.

    GDB 13.1 takes bounds and lengths from the selected frame, whichever frame an argument belongs
    to, and from variables that the procedure sets only after its entry. So strings are left out, as
    GDB's own "bt" does. Arrays whose nonsensical size GDB complains of are left out as well. A null
    reference is an optional argument that is absent.
    """
    found = []
    for each in items:
        value = each.value
        if is_absent(each):
            value = ABSENT
        elif value.startswith(_NOT_READ) and "Cannot access memory" not in value:
            value = LEFT_OUT
        elif value[:1] == "'" and not whole:
            value = LEFT_OUT
        found.append(each if value is each.value else replace(each, value=value))
    return tuple(found)


def addresses(frames: Sequence[Any]) -> tuple[int, ...]:
    """Return the program counter of each frame, 0 where GDB does not know it."""
    return tuple(_address(each.get("addr")) for each in frames if isinstance(each, Mapping))


class Thread(msgspec.Struct, frozen=True):
    """A thread in the result of -thread-info."""

    id: str
    process: int
    """Number of the thread in the kernel, which is the process id for the first thread; 0 if GDB
    does not know it."""
    frames: tuple[Mapping[str, Any], ...]
    """The thread's innermost frame, undecoded; empty if GDB does not report it."""


def threads(payload: Mapping[str, Any]) -> tuple[Thread, ...]:
    """Decode the result of -thread-info."""
    found = []
    for each in sequence(payload.get("threads")):
        if isinstance(each, Mapping):
            number = _LWP.search(str(each.get("target-id", "")))
            frames = (each["frame"],) if isinstance(each.get("frame"), Mapping) else ()
            found.append(Thread(str(each.get("id", "")), int(number[1]) if number else 0, frames))
    return tuple(found)


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in a list of GDB's."""
    return [each for each in sequence(value) if isinstance(each, Mapping)]


def only_instruction(payload: Mapping[str, Any]) -> str:
    """Return the only instruction in a result of -data-disassemble, empty unless it is one."""
    found = sequence(payload.get("asm_insns"))
    if len(found) != 1 or not isinstance(found[0], Mapping):
        return ""
    return str(found[0].get("inst", ""))


def memory(payload: Mapping[str, Any]) -> bytes:
    """Return the memory in a result of -data-read-memory-bytes, from the first address to a gap."""
    pieces: list[bytes] = []
    end: int | None = None
    for each in sequence(payload.get("memory")):
        if not isinstance(each, Mapping):
            continue
        begin = _address(each.get("begin")) + _address(each.get("offset", "0"))
        if end is not None and begin != end:
            break
        contents = each.get("contents", "")
        # Long contents were decoded by the parser.
        try:
            piece = contents if isinstance(contents, bytes) else bytes.fromhex(str(contents))
        except ValueError:
            break
        pieces.append(piece)
        end = begin + len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def users_source(frames: Iterable[Frame]) -> Frame | None:
    """Return the first frame whose source is no header of an installed library, else the first.

    It takes no more frames than it needs.
    """
    first = None
    for each in frames:
        if not is_of_system(each.fullname):
            return each
        first = first or each
    return first


def place(frames: Sequence[Frame]) -> tuple[Frame | None, str]:
    """Return the frame to show for a stop, and the function that it has called (or an empty text).

    The frame is the innermost one whose source can be read, which is the user's own code. Headers
    of installed libraries and Python frames of installed packages are not.
    """
    if any(each.language == "python" for each in frames):
        return _python_place(frames)
    readable = (each for each in frames if each.fullname and is_readable(each.fullname))
    if (found := users_source(readable)) is not None:
        at = frames.index(found)
        return found, frames[at - 1].function if at else ""
    for each in frames:
        if MPI_CALL.match(each.function):
            return each, ""
    return (frames[0], "") if frames else (None, "")


_WRAPPER = pattern(r"<locals>|(?:\A|\.)(?:__call__|_?\w*call_impl|\w*wrap\w*|inner|decorate\w*)\Z")
"""Names of Python functions that only call another one."""


def is_of_library(frame: Frame) -> bool:
    """Return whether a Python frame is of the standard library, or of an installed package."""
    return is_of_python_library(frame.fullname or frame.file)


def _python_place(frames: Sequence[Frame]) -> tuple[Frame, str]:
    found = [at for at, each in enumerate(frames) if each.language == "python"]
    for at, each in enumerate(frames):
        is_python = each.language == "python"
        if not is_of_library(each) if is_python else is_readable(each.fullname):
            found = [at]
            break
    at = found[0]
    # The call from Python into MPI has a wrapper in between.
    called = 0 if MPI_CALL.match(frames[0].function) else at - 1
    while 0 < called and _WRAPPER.search(frames[called].function) and frames[called - 1].language:
        called -= 1
    if at and frames[called].language == "unknown":
        # The mark for an unknown order is no function; the innermost C frame is one.
        return frames[at], frames[0].function if called else ""
    return frames[at], frames[called].function if at else ""


@lru_cache(maxsize=4096)
def is_readable(path: str) -> bool:
    """Return whether a source file can be read on this host."""
    try:
        return os.access(path, os.R_OK)
    except ValueError:  # a zero byte, from damaged debug information
        return False


def last_stop(payload: dict[str, Any]) -> dict[str, Any]:
    """Return a ``*stopped`` with the reason of this stop alone.

    For each signal that does not stop (``handle SIGUSR1 nostop print``) GDB adds a reason to the
    next ``*stopped``: that stop's own one is the last.
    """
    reasons = payload.get("reason")
    if not isinstance(reasons, list):
        return payload
    is_signal = reasons[-1] in ("signal-received", "exited-signalled")
    dropped = _FIELDS_OF_BREAKPOINTS if is_signal else _FIELDS_OF_SIGNALS
    found = {name: value for name, value in payload.items() if name not in dropped}
    found["reason"] = reasons[-1]
    for name in _FIELDS_OF_SIGNALS:
        if isinstance(value := found.get(name), list):
            found[name] = value[-1]
    return found


def stop(payload: Mapping[str, Any], *, run: int) -> Stop:
    """Decode a ``*stopped`` whose process lives."""
    payload = {k: v[0] if isinstance(v, list) and v else v for k, v in payload.items()}
    raw = str(payload.get("reason", ""))
    number = whole_number(payload.get("bkptno", "0"))
    is_watched = not _OF_WATCHPOINTS.isdisjoint(payload)
    watched = next(payload[key] for key in _WATCHPOINTS if key in payload) if is_watched else None
    label = "value returned"
    if isinstance(watched, Mapping):
        number = whole_number(watched.get("number", "0"))
        label = str(watched.get("exp", ""))
    elif raw == "watchpoint-scope":
        number = whole_number(payload.get("wpnum", "0"))
    values = stop_values(payload)
    detail = f"{label}: {ARROW.join(values)}" if values else ""
    if gpu_words.is_on_gpu(payload) or "exception_name" in payload:
        of_gpu = gpu_words.exception_place(payload), gpu_words.place_on_gpu(payload)
        detail = "; ".join(filter(None, (detail, *of_gpu)))
    name = str(payload.get("signal-name", ""))
    return Stop(
        reason=_REASONS.get(raw, "other"),
        run=run,
        breakpoint=max(number, 0),
        signal=name,
        meaning=str(payload.get("signal-meaning", "")) if name else "" if raw in _REASONS else raw,
        frame=frame(payload["frame"]) if isinstance(payload.get("frame"), dict) else None,
        detail=detail,
    )


def has_values(payload: Mapping[str, Any]) -> bool:
    """Return whether a ``*stopped`` has values: those of a watchpoint, or a returned one."""
    return not _OF_VALUES.isdisjoint(payload)


def stop_values(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of the values in a ``*stopped``: one that a function has returned, or those
    of a watchpoint, the old one first."""
    if not _OF_WATCHPOINTS.isdisjoint(payload):
        value = first(payload.get("value"))
        if not isinstance(value, Mapping):
            return ()
        if "old" in value:
            return str(value["old"]), str(value.get("new", "?"))
        if "new" in value:
            # An access watchpoint whose value was only read.
            return (str(value["new"]),)
        return (str(value.get("value", "")),)
    if "return-value" in payload:
        return (str(first(payload["return-value"])),)
    return ()


def further_changes(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what further watchpoints have seen that were hit at once: ``n: 0 -> 1``."""
    values = payload.get("value")
    for key in _WATCHPOINTS:
        watched = payload.get(key)
        if isinstance(watched, list) and isinstance(values, list):
            return tuple(
                f"{each['exp']}: {ARROW.join(stop_values({key: each, 'value': value}))}"
                for each, value in zip(watched[1:], values[1:], strict=False)
                if isinstance(each, Mapping) and "exp" in each
            )
    return ()


def stop_expression(payload: Mapping[str, Any]) -> str:
    """Return the watched expression of a ``*stopped``, or the number of a returned value in GDB's
    history; empty without one."""
    watched = next((first(payload[key]) for key in _WATCHPOINTS if key in payload), None)
    if isinstance(watched, Mapping):
        return str(watched.get("exp", ""))
    return str(first(payload.get("gdb-result-var", "")))


def exit_of(payload: Mapping[str, Any], *, run: int) -> Exit | None:
    """Decode a ``*stopped`` that reports the end of the process, None if it does not."""
    match first(payload.get("reason")):
        case "exited-normally":
            return Exit(code=0, run=run)
        case "exited":
            # GDB prints the status in octal.
            return Exit(code=_octal(payload.get("exit-code", "0")), run=run)
        case "exited-signalled":
            return Exit(signal=str(payload.get("signal-name", "?")), run=run)
        case _:
            return None


def symbol_of(text: str) -> str:
    """Return the symbol in GDB's answer to ``info symbol``, such as ``<main+16>``, or nothing."""
    match = _INFO_SYMBOL.match(text)
    return f"<{match[1]}{'+' if match[2] else ''}{match[2] or ''}>" if match else ""


def first(value: Any) -> Any:
    """Return the first value of a field that GDB repeats, as for two watchpoints at once."""
    return value[0] if isinstance(value, list) and value else value


def sequence(value: Any) -> Sequence[Any]:
    """Return a list of GDB's, empty for any other value."""
    return value if isinstance(value, list | tuple) else ()


def _address(text: Any) -> int:
    try:
        return int(str(text), 16)
    except ValueError:
        return 0


def _octal(text: Any) -> int:
    try:
        return int(str(first(text)), 8)
    except ValueError:
        return 0


def whole_number(text: Any) -> int:
    """Return the number before the dot, 0 for a text that has none."""
    if text.__class__ is str and text.isdecimal():
        return int(text)
    try:
        return int(str(text).split(".", 1)[0], 10)
    except ValueError:
        return 0


def at_level(each: Frame, level: int) -> Frame:
    """Return the frame with another level."""
    if each.level == level:
        return each
    return replace(each, level=level)
