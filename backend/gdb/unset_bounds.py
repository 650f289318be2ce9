"""Fortran arrays whose bounds the procedure has not set yet, which GDB 13.1 prints for ever.

The bounds of a dummy array such as ``a(n, m)`` are variables that the compiler adds. At the entry
of the procedure they hold what was on the stack. An array without elements in one dimension and
with billions in another has a size of 0, and GDB's loop over the other one cannot be interrupted.
GDB refuses an array with a huge size, in words that do not name the cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from pgdb.backend.gdb import decode
from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.queries import with_bounds
from pgdb.backend.gdb.session import GdbSession
from pgdb.patterns import pattern
from pgdb.records import Failure, Record, Value, Variable, Variables

LARGEST = 1_000_000
"""Most elements along a dimension of an array without elements that GDB is let print."""
LARGEST_BYTES = 1 << 40
"""Size in bytes that no variable has: more than the memory of a host."""
_NUMBER = pattern(r"-?\d+")
_COMPILERS = "."
"""First character of the names of gfortran's own variables, which no expression can name."""
_REQUIRED = pattern(r"requires (\d+) bytes, which is more than max-value-size")
_UNKNOWN = pattern(r"failed to get range bounds|Lower bound may not be '\*'")
_IS_UNKNOWN = pattern(r"<error reading variable: failed to get range bounds>")
UNKNOWN = "<its bounds are not known here>"
INCOMPLETE = "<incomplete type>"
NOT_SHOWN = "<not shown while bounds of other variables are not set>"
UNSET = "<its bounds are not set yet>"


async def unset_arrays(gdb: GdbSession, expressions: Sequence[str]) -> dict[str, str]:
    """Return the shapes of those expressions that are arrays with nonsensical bounds.

    The result is empty unless the selected frame is of Fortran.

    :raises GdbError: if GDB ends.
    """
    selected = await gdb.send("-stack-info-frame")
    if selected.kind != "done" or not decode.is_of_fortran(decode.frame(selected.payload["frame"])):
        return {}
    sizes = await _values(gdb, "sizeof", expressions)
    empty = [each for each, size in zip(expressions, sizes, strict=True) if size == "0"]
    shapes = await _values(gdb, "shape", empty)
    return {
        each: shape
        for each, shape in zip(empty, shapes, strict=True)
        if any(abs(int(number)) > LARGEST for number in _NUMBER.findall(shape))
    }


async def _values(gdb: GdbSession, function: str, expressions: Sequence[str]) -> list[str]:
    """Return the values of a Fortran function of each expression, empty where it has none."""
    asked = [gdb.evaluate(f"{function}({each})") for each in expressions]
    return [str(each.payload.get("value", "")) for each in await asyncio.gather(*asked)]


async def variables(gdb: GdbSession, which: str) -> Record | None:
    """Return the ``locals`` or ``arguments`` of the selected frame where some bounds are not set.

    None means that GDB can list them itself.

    :raises GdbError: if GDB ends.
    """
    listed = await gdb.send("-stack-list-variables 0")
    names = [
        str(each.get("name", ""))
        for each in listed.payload.get("variables", ())
        if (each.get("arg") == "1") is (which == "arguments")
    ]
    unset = await unset_arrays(gdb, names)
    if not unset:
        return None
    asked = {
        name: gdb.evaluate(name)
        for name in names
        if name not in unset and not name.startswith(_COMPILERS)
    }
    found = []
    for name in names:
        if name in asked:
            result = await asked[name]
            value = str(result.payload.get("value", f"<error reading variable: {result.message}>"))
        else:
            value = UNSET if name in unset else NOT_SHOWN
        found.append(Variable(name=name, value=value))
    items = await with_bounds(gdb, tuple(found))
    return Variables(items=items, empty=f"No {which}.")


async def with_strings(gdb: GdbSession, listed: Variables) -> Variables:
    """Return variables with the arrays of strings that GDB lists as ``<incomplete type>``.

    :raises GdbError: if GDB ends.
    """
    items = []
    for item in listed.items:
        if item.value == INCOMPLETE:
            # Only "print" and "output" ask the printer of such arrays.
            result = await gdb.send(console(f"output {item.name}"))
            if result.kind == "done" and result.text:
                item = msgspec.structs.replace(item, value=result.text.rstrip("\n"))
                (item,) = await with_bounds(gdb, (item,))
        items.append(item)
    return msgspec.structs.replace(listed, items=tuple(items))


def reworded(answer: Record, expression: str = "") -> Record:
    """Name the cause where a value, or that of a listed variable, has no or impossible bounds.

    A value in whose place GDB shows that error is a Failure.
    """
    match answer:
        case Failure(message=message) if is_impossible(message):
            return Failure(message=about(expression))
        case Failure(message=text) if _UNKNOWN.search(text):
            return Failure(message=about_unknown(expression)) if expression else answer
        case Value(text=text) if _IS_UNKNOWN.fullmatch(text):
            return Failure(message=about_unknown(expression)) if expression else answer
        case Variables(items=items):
            return msgspec.structs.replace(answer, items=tuple(map(_reworded_variable, items)))
        case _:
            return answer


def _reworded_variable(item: Variable) -> Variable:
    if is_impossible(item.value):
        return msgspec.structs.replace(item, value=UNSET)
    if _IS_UNKNOWN.fullmatch(item.value):
        return msgspec.structs.replace(item, value=UNKNOWN)
    return item


def is_impossible(refusal: str) -> bool:
    """Return whether a text of GDB's refuses a value that no process has room for."""
    found = _REQUIRED.search(refusal)
    return found is not None and int(found[1]) >= LARGEST_BYTES


def about(expression: str, shape: str = "") -> str:
    """Return why a value is not shown; *shape* is empty where GDB cannot give it."""
    what = f"has no elements, and the shape {shape}" if shape else "has an impossible size"
    return (
        f"{expression} {what}: its bounds are not set yet or are damaged; "
        "'next' sets those of a procedure that was just entered"
    )


def about_unknown(expression: str) -> str:
    """Return why GDB has no bounds of an array, with the ways out."""
    return (
        f"{expression}: its bounds are not known here, since it is declared with (*), or they are "
        "optimized out; -O0 or -Og keeps them, and 'up' may reach a frame that has the array with "
        "bounds"
    )
