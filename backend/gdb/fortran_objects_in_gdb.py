"""Class variables and deferred-length strings of Fortran; runs inside GDB, in its Python.

gfortran (12) describes a ``class(T)`` or ``class(*)`` variable as a structure: the address of the
object, and that of the table of its dynamic type. GDB (13.1 and 18.1) shows the two addresses, so
that variables with different objects look alike. A ``character(len=:)`` variable is described as a
pointer, and one that is a component as a pointer to a string of length 0, whose length is a
component of its own. The printers here show the object and the string. Pointers in other objects
stay addresses, as they are in GDB: what they point to may point back.
"""

from __future__ import annotations

import re
from typing import Any

import fortran_arrays_in_gdb as arrays  # type: ignore[import-not-found]
import fortran_descriptors_in_gdb as descriptors  # type: ignore[import-not-found]
import gdb
import printers_in_gdb as printers  # type: ignore[import-not-found]

_TABLE = re.compile(r"<(?:__(?P<module>\w+)_MOD_|(?P<scope>\w+)::)?__vtab_(?P<name>\w+)")
_INTRINSIC = re.compile(r"(INTEGER|REAL|COMPLEX|LOGICAL|CHARACTER)_(\d+)_\Z")
_MOST_NESTED = 20


def is_class(kind: gdb.Type) -> bool:
    """Return whether a type is the structure of a class variable."""
    if kind.code != gdb.TYPE_CODE_STRUCT or not (kind.tag or "").startswith("__class_"):
        return False
    return [field.name for field in kind.fields()][:2] == ["_data", "_vptr"]


def _table_type(name: str) -> gdb.Type | None:
    """Return the derived type whose table has this name; None if GDB does not know it."""
    symbol = gdb.lookup_symbol(name)[0] or gdb.lookup_global_symbol(name)
    if symbol is None:
        symbol = gdb.lookup_static_symbol(name)
    if symbol is None or symbol.type is None:
        return None
    for field in symbol.type.strip_typedefs().fields():
        if field.name == "_def_init":
            kind = field.type.strip_typedefs().target()
            return kind if kind.code == gdb.TYPE_CODE_STRUCT else None
    return None


def _dynamic_type(value: gdb.Value) -> gdb.Type | None:
    """Return the type of the object of a class variable; None if it is not known."""
    # With a format of the user's, such as that of print/x, GDB names no symbol.
    found = _TABLE.search(value["_vptr"].format_string(symbols=True, format="a"))
    if found is None:
        return None
    intrinsic = _INTRINSIC.match(found["name"])
    try:
        if intrinsic is None:
            scope = found["module"] or found["scope"]
            names = [f"{scope}::__vtab_{found['name']}"] if scope else []
            names.append(f"__vtab_{found['name']}")
            kinds = (_table_type(name) for name in names)
            return next((kind for kind in kinds if kind is not None), None)
        if intrinsic[1] == "CHARACTER":
            length = int(value["_len"])
            return descriptors.string_type(length) if 0 <= length <= descriptors.LONGEST else None
        return gdb.lookup_type(f"{intrinsic[1].lower()}(kind={intrinsic[2]})")
    except gdb.error:
        return None


def object_of(value: gdb.Value) -> gdb.Value | None:
    """Return the object of a class variable, which is no array, or None.

    Without memory, and with a type that GDB does not know, there is none.
    """
    data = value["_data"]
    if data.type.strip_typedefs().code != gdb.TYPE_CODE_PTR or not int(data):
        return None
    kind = _dynamic_type(value)
    return None if kind is None else data.cast(kind.pointer()).dereference()


def array_of(value: gdb.Value) -> tuple[gdb.Value, gdb.Type] | None:
    """Return the array of a class variable, and the type of its elements; or None."""
    data = value["_data"]
    if data.type.strip_typedefs().code != gdb.TYPE_CODE_ARRAY:
        return None
    kind = _dynamic_type(value)
    return None if kind is None else (data, kind)


def string_at(value: gdb.Value) -> gdb.Value | None:
    """Return the string of a ``character(len=:)`` variable; None of any other pointer."""
    kind = value.type.strip_typedefs()
    if kind.code != gdb.TYPE_CODE_PTR or not arrays.is_string(kind.target()) or not int(value):
        return None
    string = value.dereference()
    return string if 0 < string.type.sizeof <= descriptors.LONGEST else None


def strings_in(kind: gdb.Type) -> dict[str, str]:
    """Return the components of a type that are deferred-length strings, each with its length."""
    names = {field.name: field.type.strip_typedefs() for field in kind.fields() if field.name}
    return {
        name: f"_{name}_length"
        for name, each in names.items()
        if f"_{name}_length" in names
        and each.code == gdb.TYPE_CODE_PTR
        and arrays.is_string(each.target())
    }


def component_string(value: gdb.Value, name: str) -> gdb.Value | None:
    """Return a component that is a deferred-length string; None without memory."""
    length = int(value[f"_{name}_length"])
    if not int(value[name]) or not 0 < length <= descriptors.LONGEST:
        return None
    return value[name].cast(descriptors.string_type(length).pointer()).dereference()


class _Printer:
    """Printer of a structure with objects and strings in place of their addresses."""

    depth = 0
    """Number of such structures that are being printed."""

    def __init__(self, value: gdb.Value) -> None:
        self._value = value

    def to_string(self) -> str:
        """Return the text; three dots in the list of a frame's arguments."""
        options = printers.options_for_parts()
        if options is None:
            return "..."
        opening, closing = ("( ", " )") if printers.is_in_fortran() else ("{", "}")
        kind = self._value.type.strip_typedefs()
        if _Printer.depth >= _MOST_NESTED or options["max_depth"] == 0:
            return f"{opening}...{closing}"
        strings = strings_in(kind)
        parts = []
        _Printer.depth += 1
        try:
            for field in kind.fields():
                if field.name:
                    text = self._part(field.name, strings, options)
                    parts.append(f"{field.name} = {text}")
        finally:
            _Printer.depth -= 1
        return f"{opening}{', '.join(parts)}{closing}"

    def _part(self, name: str, strings: dict[str, str], options: dict[str, Any]) -> str:
        try:
            if name == "_data" and is_class(self._value.type.strip_typedefs()):
                return self._object(options)
            part = component_string(self._value, name) if name in strings else None
            return str((self._value[name] if part is None else part).format_string(**options))
        except gdb.error as error:
            return f"<error: {error}>"

    def _object(self, options: dict[str, Any]) -> str:
        is_pointer = (self._value.type.strip_typedefs().tag or "").endswith("_p")
        if is_pointer and _Printer.depth > 1:
            return str(self._value["_data"].format_string(**options))
        if (whole := object_of(self._value)) is not None:
            return str(whole.format_string(**options))
        if (found := array_of(self._value)) is not None:
            array, kind = found
            return str(arrays.text_of(array, options, kind))
        return str(self._value["_data"].format_string(**options))


class _String:
    """Printer of the string of a ``character(len=:)`` variable."""

    def __init__(self, value: gdb.Value) -> None:
        self._value = value

    def to_string(self) -> str:
        """Return the text; three dots in the list of a frame's arguments."""
        options = printers.options_for_parts()
        return "..." if options is None else str(self._value.format_string(**options))


def _printer_of(value: gdb.Value) -> _Printer | _String | None:
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_PTR:
        string = string_at(value) if arrays.is_string(kind.target()) else None
        return None if string is None else _String(string)
    if kind.code != gdb.TYPE_CODE_STRUCT:
        return None
    if is_class(kind):
        is_known = object_of(value) is not None or array_of(value) is not None
        return _Printer(value) if is_known else None
    # GDB 13.1 fails as it lists the fields of a structure without a name.
    return _Printer(value) if kind.tag and strings_in(kind) else None


def main() -> None:
    """Register the printers; without them such variables show addresses."""
    printers.register(_printer_of, "fortran-objects")
