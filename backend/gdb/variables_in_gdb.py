"""The user's convenience variables, as expressions; runs inside GDB, in its Python (3.7 or later).

The GDB of another launch gets them from these expressions. GDB itself keeps the values, so an
expression holds the value, and not what it was computed from.
"""

from __future__ import annotations

import json
import re
from typing import Any

import gdb

_MOST_ELEMENTS = 1000
_SHOWN = re.compile(r"(?m)^\$(\w+) = ")
# Names that begin with "_" are GDB's or PGDB's.
_GDBS = frozenset("bpnum tpnum cdir cwd trace_frame trace_line trace_func trace_file sdata".split())
_INTEGERS = {1: "char", 2: "short", 4: "int", 8: "long", 16: "__int128"}
_FLOATS = {4: "float", 8: "double", 16: "long double"}
_DOUBLE = 8
"""Size in bytes; numbers that are longer need a suffix."""
_PLAIN = re.compile(r"[A-Za-z_][\w :]*\Z")


class _Unknown(Exception):
    """A value that no expression gives."""


def show() -> None:
    """Write each variable as JSON: its name, a language, an expression or why there is none."""
    found: list[tuple[str, str, str, str]] = []
    text = gdb.execute("show convenience", to_string=True)
    for name in reversed(_SHOWN.findall(text)):  # GDB shows the latest first
        if name.startswith("_") or name in _GDBS:
            continue
        value = gdb.convenience_variable(name)
        if value is None or value.type.strip_typedefs().code in _NO_VALUES:
            continue
        try:
            language, expression = _expression(value)
            found.append((name, language, expression, ""))
        except (_Unknown, gdb.error, ValueError) as error:
            found.append((name, "", "", str(error)))
    gdb.write(json.dumps(found) + "\n")


def define(variables: list[list[str]]) -> None:
    """Define variables: name, language, expression. Write as JSON why some could not be defined."""
    failed: dict[str, str] = {}
    for name, language, expression in variables:
        try:
            gdb.execute(f"with language {language} -- set ${name} = {expression}", to_string=True)
        except gdb.error as error:
            failed[name] = str(error)
    gdb.write(json.dumps(failed) + "\n")


_NO_VALUES = (gdb.TYPE_CODE_VOID, getattr(gdb, "TYPE_CODE_INTERNAL_FUNCTION", gdb.TYPE_CODE_VOID))


def _expression(value: Any) -> tuple[str, str]:
    """Return an expression for a value, and the language to evaluate it in."""
    type_ = value.type.strip_typedefs()
    if type_.code == gdb.TYPE_CODE_STRING:
        text = value.string()
        if "'" in text or not text.isprintable():
            raise _Unknown("it is a string with special characters")
        return "fortran", f"'{text}'"
    if type_.code == gdb.TYPE_CODE_BOOL and str(type_).startswith("logical"):
        return "fortran", ".true." if value else ".false."
    return "c++", _of_c(value, type_)


def _of_c(value: Any, type_: Any) -> str:
    if type_.code == gdb.TYPE_CODE_ARRAY:
        return _array(value, type_)
    if type_.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR):
        return f"(({_name(type_, _INTEGERS)}){int(value)})"
    if type_.code == gdb.TYPE_CODE_BOOL:
        return "true" if value else "false"
    if type_.code == gdb.TYPE_CODE_ENUM and type_.name:
        return f"(({type_.name}){int(value)})"
    if type_.code == gdb.TYPE_CODE_FLT:
        text = str(value)
        name = _name(type_, _FLOATS)
        if "nan" in text:
            text = "(0.0/0)" if text.startswith("-") else "(-(0.0/0))"
        elif "inf" in text:
            text = "(-1.0/0)" if text.startswith("-") else "(1.0/0)"
        elif type_.sizeof > _DOUBLE and name != _FLOATS[16]:
            raise _Unknown(f"its type is {type_}")
        elif type_.sizeof > _DOUBLE:
            text += "l"
        return f"(({name}){text})"
    if type_.code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF, gdb.TYPE_CODE_FUNC):
        raise _Unknown("it is an address in the job that has ended")
    raise _Unknown(f"its type is {type_}")


def _name(type_: Any, names: dict[int, str]) -> str:
    """Return the name of a type of numbers in C."""
    name = type_.unqualified().name or ""
    if _PLAIN.match(name):
        return str(name)
    if type_.sizeof not in names:
        raise _Unknown(f"its type is {type_}")
    return names[type_.sizeof]


def _array(value: Any, type_: Any) -> str:
    low, high = type_.range()
    if high - low >= _MOST_ELEMENTS:
        raise _Unknown(f"it has more than {_MOST_ELEMENTS} elements")
    if high < low:
        raise _Unknown("it has no elements")
    elements = type_.target().strip_typedefs()
    if elements.sizeof == 1 and elements.code in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_CHAR):
        codes = [int(value[at]) & 0xFF for at in range(low, high + 1)]
        if elements.name == "char" and codes[-1] == 0:
            return '"' + "".join(f"\\{code:03o}" for code in codes[:-1]) + '"'
    return "{" + ", ".join(_of_c(value[at], elements) for at in range(low, high + 1)) + "}"
