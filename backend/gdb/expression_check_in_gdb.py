"""Check of an expression at a place that no rank has reached; runs inside GDB, in its Python."""

from __future__ import annotations

import json
import re

import gdb

_ERRORS = (gdb.error, RuntimeError, ValueError)
_OF_TYPES_ALONE = re.compile(r"[^()%>:$]*\Z")
"""An expression without a call, a cast, a pointer, a scope or a value of GDB's own.

GDB does not know operators and methods of C++ where it translates an expression."""
_NO_MEMBER = re.compile(r"Couldn't find member named `([A-Za-z_]\w*)' in struct/union/class `(.+)'")
_NO_STRUCTURE = "The left operand of `.' is not a structure or union"


def check(place: str, expression: str) -> None:
    """Write as JSON what GDB says of an expression at a place, and whether it knows the place.

    GDB reads the condition of a breakpoint in the scope of the breakpoint, and evaluates nothing.
    Where it does not know the place, it reads the expression where the rank is.
    """
    why, is_known = "", True
    try:
        # A breakpoint would wait for a library that defines its place.
        gdb.decode_line(place)
        probe = gdb.Breakpoint(place, internal=True)
    except _ERRORS:
        is_known = False
        probe = gdb.Breakpoint("*$pc", internal=True)
    try:
        probe.condition = expression
    except _ERRORS as error:
        why = str(error)
    finally:
        probe.delete()
    if is_known and not why and _OF_TYPES_ALONE.match(expression):
        why = _wrong_member(place, expression)
    gdb.write(json.dumps({"why": why, "is_known": is_known}) + "\n")


def _wrong_member(place: str, expression: str) -> str:
    """Return GDB's error about a member that the types at a place do not have; else nothing.

    GDB translates an expression for a tracepoint in the scope of its place, and reads no memory.
    """
    try:
        gdb.execute(f"maint agent-eval -at {place},{expression}", to_string=True)
    except _ERRORS as error:
        text = str(error)
    else:
        return ""
    if text.startswith(_NO_STRUCTURE):
        return "Attempt to extract a component of a value that is not a structure."
    missing = _NO_MEMBER.match(text)
    if missing is None:
        return ""
    name, owner = missing.groups()
    # The translation does not see members of an anonymous union.
    kinds = [
        found for found in map(_type_of, (owner, f"struct {owner}", f"union {owner}")) if found
    ]
    if not kinds or any(_has_member(each, name) for each in kinds) or _is_method(owner, name):
        return ""
    return f"There is no member named {name}."


def _type_of(name: str) -> gdb.Type | None:
    try:
        return gdb.lookup_type(name).strip_typedefs()
    except _ERRORS:
        return None


def _has_member(kind: gdb.Type, name: str) -> bool:
    """Return whether a type has a member, or a type that it is made of does."""
    for field in kind.fields():
        if field.name == name:
            return True
        if field.is_base_class or not field.name:
            if _has_member(field.type.strip_typedefs(), name):
                return True
    return False


def _is_method(owner: str, name: str) -> bool:
    try:
        return gdb.lookup_symbol(f"{owner}::{name}")[0] is not None
    except _ERRORS:
        return True  # it may be one
