"""Questions to one GDB that change nothing: values, stacks, variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.frame_arguments import FrameArguments
from pgdb.backend.gdb.mi import Result, console
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.rank.protocol import NeedsStopError
from pgdb.function_names import bare_name
from pgdb.patterns import pattern
from pgdb.print_options import base_of, letters_of, split_print
from pgdb.records import Failure, Frame, Record, Stack, Value, Variable, Variables

Named = Callable[[Frame, Mapping[str, Any]], Frame]
"""A function that returns the frame of a ``frame={…}`` with a name for its function."""

_FUNCTION = pattern(r"f[rame]*\s+f[unctio]*\s+(\S.*)\Z")
_MOST_INLINED = 32
"""Maximum number of frames at one address that are compared."""
_VALUE = pattern(r"^\$(\d+) = ", re.M)
# An array of Fortran, or a derived type with one; neither a complex number nor a cast of C.
_FORTRAN_ARRAY = pattern(r"\((?:(?:[-+.\d'(]|nan|inf)(?![^ ()]*,[^ ()]*\)\Z)| [^(]*\()")
_AN_INDEX = pattern(r"\(-?\d+\) = ")
_FIRST_INDEX = pattern(r"(?<=\()\((-?\d+)\) = ")
_COUNTED = pattern(r"(?:\A|\n)\$\d+ = \Z")
_UNKNOWN = "?"
_MOST_ARRAYS = 32  # of which `info locals` asks for the bounds
_OF_PYTHON = pattern(r"Python Exception <class 'gdb\.GdbError'>: ([^\n]+)")
_PRINTER_FAILED = "Python Exception"
_RAW_ADDRESS = pattern(r"\b0x[0-9a-f]{6,16}\b")
_NOTHING_SHOWN = pattern(r"\A\Z|(?: = |[{,] )(?=[,}])")


# The kernel takes register sets of its own size only, which GDB 14 was the first to ask for.
_OLD_LAYOUT = "Couldn't write extended state status"
_NEWER_GDB = (
    "this GDB cannot write vector registers on this processor, as a function call needs; "
    "GDB 14 or newer can (--gdb names one, pip install 'pgdb-mpi[embedded]' brings one)"
)


def failure(result: Result) -> Failure:
    """Return the record of a command that failed.

    :raises NeedsStopError: if it failed because the rank runs.
    """
    if result.says_that_it_runs:
        raise NeedsStopError
    message = result.message.strip()
    # GDB writes the message to the log as well, and the words of its Python code to it alone.
    output = result.printed.rstrip()
    if not output.endswith(message):
        output = result.text + result.log.rstrip()
    output = output.removesuffix(message)
    if "Python" in message and (of_python := _OF_PYTHON.search(result.log)) is not None:
        message = of_python[1]
        output = output.replace(of_python[0], "").rstrip()
    if _OLD_LAYOUT in message:
        message = f"{message.removesuffix('.')}: {_NEWER_GDB}"
    return Failure(message=message, output=output.strip("\n"))


async def evaluate_numbered(gdb: GdbSession, expression: str, letters: str) -> tuple[Record, int]:
    """Print the value of an expression; return it with its number in GDB's history.

    *letters* are GDB's format letters, if there are any. The number is 0 if GDB's history does not
    have the value.
    """
    record, number = await numbered(gdb, _print_command(expression, letters))
    if number and isinstance(record, Value) and _FORTRAN_ARRAY.match(record.text):
        # With format letters GDB prints the indices in that format too.
        shown = None if letters else record.text
        record = replace(record, bounds=await bounds(gdb, f"${number}", shown))
    return record, number


async def evaluate_quietly(
    gdb: GdbSession, expression: str, letters: str = "", *, settings: Sequence[str] = ()
) -> Record:
    """Return the value of an expression; GDB's history of values stays as it is.

    :param settings: settings of GDB for this command, without ``set``.
    :raises NeedsStopError: if the rank runs.
    """
    word = f"output/{letters}" if letters else "output"
    command = "".join(f"with {each} -- " for each in settings) + f"{word} {expression}"
    result = await gdb.send(console(command))
    if result.kind != "done":
        return failure(result)
    text = result.text.rstrip("\n")
    if _PRINTER_FAILED in result.log:
        text = await _without_printers(gdb, expression, letters) or text
    warnings = _RAW_ADDRESS.sub("…", result.log.strip())
    found = ""
    if is_fortran_array(text):
        found = await bounds(gdb, expression, None if letters else text)
    return Value(text=text, bounds=found, warnings=warnings, base=base_of(letters))


def _print_command(expression: str, letters: str) -> str:
    """Return the ``print`` of an expression, which may have options of GDB's before it."""
    printed = split_print(expression)
    if not printed.options:
        return f"print/{letters} {expression}" if letters else f"print {expression}"
    letters = letters or printed.letters
    slash = f"/{letters} " if letters else ""
    return f"print {printed.options} -- {slash}{printed.expression}"


async def numbered(gdb: GdbSession, command: str) -> tuple[Record, int]:
    """Carry out a ``print``; return the value and its number in GDB's history, or 0."""
    result = await gdb.send(console(command))
    if result.kind != "done":
        error = failure(result)
        # GDB counts a value that it then cannot format; the numbers of ranks differ.
        return replace(error, output=_COUNTED.sub("", error.output)), 0
    text = result.text.rstrip("\n")
    # Output of the program itself does not come this way, so the value follows the first history
    # number; "print (void)0" has none. Output of a breakpoint's commands can stand before it.
    match = max(_VALUE.finditer(text), key=lambda found: found.start(), default=None)
    warnings = _RAW_ADDRESS.sub("…", result.log.strip())
    if match is None:
        return Value(text=text, warnings=warnings), 0
    shown, number = text[match.end() :], int(match[1])
    letters = letters_of(command)
    if _PRINTER_FAILED in result.log:
        shown = await _without_printers(gdb, f"${number}", letters) or shown
    return Value(text=shown, warnings=warnings, base=base_of(letters)), number


async def _without_printers(gdb: GdbSession, expression: str, letters: str = "") -> str:
    """Return a value as GDB prints it without pretty-printers, empty if it does not.

    A printer that fails leaves nothing in the text, with which all values would be equal. That of
    libstdc++ 12 fails for ``std::atomic<double>`` before C++20.
    """
    result = await gdb.send(console(f"output/r{letters} {expression}"))
    return result.text.rstrip("\n") if result.kind == "done" else ""


def is_fortran_array(text: str) -> bool:
    """Return whether a value may be an array of Fortran, or a derived type with one."""
    return _FORTRAN_ARRAY.match(text) is not None


async def bounds(
    gdb: GdbSession,
    expression: str,
    value: str | None,
    *,
    most_elements: int = 0,
    most_bytes: int = 0,
) -> str:
    """Return the lower bounds of the arrays of Fortran in *value*, see :class:`Value`.

    *expression* is a variable, or the value in GDB's history: GDB prints indices on request only,
    and an expression that changes something must not be evaluated twice. *most_elements* is the
    limit of elements with which *value* was printed, *most_bytes* the limit of its size; 0 is that
    of the user.
    """
    command = "with may-call-functions off -- with print array-indexes on -- output"
    if most_elements:
        command = f"with print elements {most_elements} -- {command}"
    if most_bytes:
        command = f"with max-value-size {most_bytes} -- {command}"
    result = await gdb.send(console(f"{command} {expression}"))
    if result.kind != "done":
        # A GDB without "with" is from before 2020.
        return "" if "Undefined command" in result.message else _UNKNOWN
    return bounds_of(result.text.rstrip("\n"), value)


def bounds_of(indexed: str, value: str | None) -> str:
    """Return the lower bounds of the arrays in *indexed*, which is *value* with indices.

    >>> bounds_of("((-1) = ((1) = 4, (2) = 5) (0) = ((1) = 6, (2) = 7))", "((4, 5) (6, 7))")
    '-1,1,1'
    >>> bounds_of("((1) = 4, (2) = 5)", "(4, 5)"), bounds_of("(4, 5)", "(4, 5)")
    ('', '?')
    """
    lower = [found[1] for found in _FIRST_INDEX.finditer(indexed)]
    if indexed == value and value.startswith("( "):
        return ""  # the parentheses in a derived type are those of complex numbers
    if not lower or (value is not None and _AN_INDEX.sub("", indexed) != value):
        return _UNKNOWN
    return "" if set(lower) == {"1"} else ",".join(lower)


async def select_frame(
    gdb: GdbSession, shown: FrameArguments, command: str, named: Named
) -> Record:
    """Run ``frame …``, ``up …``, ``down …`` or nothing; return the frame that is selected then."""
    if command:
        result = await gdb.send(console(command))
        if result.kind != "done":
            return failure(result)
    selected = await gdb.send("-stack-info-frame")
    if selected.kind != "done":
        return failure(selected)
    payload = selected.payload["frame"]
    if function := _FUNCTION.match(command):
        payload = await _select_inlined(gdb, function[1], payload)
    frame = decode.frame(payload)
    level = frame.level
    shown.see(frame)
    (asked,) = shown.ask(gdb.ask_together, where=f"@ {level} {level}")
    values = shown.shown([frame], await shown.result(asked))
    (frame,) = decode.with_arguments([named(frame, payload)], values, whole=shown.are_whole)
    return Stack(frames=(decode.at_level(frame, 0),), hidden=str(level))


async def _select_inlined(
    gdb: GdbSession, function: str, selected: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Select the frame of *function* in place of one at the same address; return the selected one.

    GDB 13.1 compares addresses only: it takes the innermost function that the compiler has put into
    *function* (or into the function that holds it).
    """
    if _is_function(selected, function):
        return selected
    level = decode.frame(selected).level
    outer = await gdb.send(f"-stack-list-frames {level + 1} {level + _MOST_INLINED}")
    for each in decode.mappings(outer.payload.get("stack")):
        if each.get("addr") != selected.get("addr"):
            break
        if _is_function(each, function):
            await gdb.send(console(f"frame {decode.frame(each).level}"))
            return each
    return selected


def _is_function(payload: Mapping[str, Any], function: str) -> bool:
    """Return whether a frame is of a function as the user wrote it, with or without parameters and
    scope."""
    name, wanted = bare_name(decode.frame(payload).function), bare_name(function)
    return name == wanted or name.endswith(f"::{wanted}")


async def variables(gdb: GdbSession, which: str) -> Record:
    """List the ``locals`` or the ``arguments`` of the selected frame."""
    command = "-stack-list-locals 1" if which == "locals" else "-stack-list-arguments 1"
    if which == "arguments":
        level = await gdb.send("-stack-info-frame")
        if level.kind != "done":
            return failure(level)
        number = level.payload["frame"].get("level", "0")
        result = await gdb.send(f"{command} {number} {number}")
        frames = result.payload.get("stack-args", ())
        items = frames[0].get("args", ()) if frames else ()
    else:
        result = await gdb.send(command)
        items = result.payload.get("locals", ())
    if result.kind != "done":
        return failure(result)
    listed = decode.variables(items)
    if _PRINTER_FAILED in result.log:
        listed = tuple([await _shown_raw(gdb, item) for item in listed])
    found = await with_bounds(gdb, listed)
    return Variables(items=found, empty=f"No {which}." if found else await _why_none(gdb, which))


async def _shown_raw(gdb: GdbSession, item: Variable) -> Variable:
    """Return a variable, without pretty-printers if one has shown nothing in its value."""
    if not _NOTHING_SHOWN.search(item.value):
        return item
    return replace(item, value=await _without_printers(gdb, item.name) or item.value)


async def _why_none(gdb: GdbSession, which: str) -> str:
    """Return GDB's words for a frame without variables: MI lists none without symbols, too."""
    asked = "info locals" if which == "locals" else "info args"
    text = (await gdb.send(console(asked))).text.strip()
    return text if text.startswith("No ") else f"No {which}."


async def with_bounds(gdb: GdbSession, items: tuple[Variable, ...]) -> tuple[Variable, ...]:
    """Return variables with the lower bounds of the arrays of Fortran among them."""
    arrays = [item for item in items if _FORTRAN_ARRAY.match(item.value)]
    if not arrays:
        return items
    found = {
        item: await bounds(gdb, item.name, item.value) if at < _MOST_ARRAYS else _UNKNOWN
        for at, item in enumerate(arrays)
    }
    return tuple(replace(item, bounds=found[item]) if found.get(item) else item for item in items)
