"""Optional arguments of Fortran that the caller has not given, which GDB reads as null pointers."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pgdb.backend.gdb import decode, queries
from pgdb.backend.gdb.session import GdbSession
from pgdb.overlay.operations import AboutExpression
from pgdb.patterns import pattern
from pgdb.records import Failure, Variables

_NAMES = pattern(r"(?<![\w%$.])[A-Za-z_]\w*")
"""Names of an expression that are no components."""
_OF_NUMBER = "Cannot access memory at address 0x0"
# GDB also says so of an array whose descriptor the procedure has not read yet.
_OF_ARRAY = "Location address is not set."
_NO_PLACE = f"<error reading variable: {_OF_ARRAY}>"


async def with_cause(gdb: GdbSession, operation: Any, failure: Failure) -> Failure:
    """Return an error that names the absent argument, if *failure* is about memory or a place that
    an expression with one has not.

    :raises GdbError: if GDB ends.
    """
    if not isinstance(operation, AboutExpression):
        return failure
    if failure.message not in (_OF_NUMBER, _OF_ARRAY) or not gdb.is_alive:
        return failure
    listed = await with_marks(gdb, await queries.variables(gdb, "arguments"))
    if not isinstance(listed, Variables):
        return failure
    named = {each[0].lower() for each in _NAMES.finditer(operation.expression)}
    for item in listed.items:
        if item.name.lower() not in named:
            continue
        if item.value == decode.ABSENT:
            return Failure(message=f"{item.name} is absent: the caller has not given this argument")
        if item.value == _NO_PLACE and failure.message == _OF_ARRAY:
            why = "the caller has not given it, or the procedure has not read its place yet"
            return Failure(message=f"{item.name} has no place: {why}")
    return failure


async def with_marks(gdb: GdbSession, listed: Any) -> Any:
    """Return the arguments of the selected frame with a mark in place of errors about absent ones.

    :raises GdbError: if GDB ends.
    """
    if not isinstance(listed, Variables) or not any(map(decode.is_absent, listed.items)):
        return listed
    selected = await gdb.send("-stack-info-frame")
    is_fortran = selected.kind == "done" and decode.is_of_fortran(
        decode.frame(selected.payload["frame"])
    )
    if not is_fortran:
        return listed  # such as a reference of C++ that is null
    return replace(
        listed,
        items=tuple(
            replace(each, value=decode.ABSENT) if decode.is_absent(each) else each
            for each in listed.items
        ),
    )
