"""Types of Fortran variables that GDB cannot name; runs inside GDB, in its Python.

GDB (13.1), used by its machine interface, dies of a segmentation fault where it writes the name of
a structure without a name in Fortran: ``whatis names`` and ``print &names`` of an array of strings
that gfortran describes as such a structure. Commands without that name take their place.
"""

from __future__ import annotations

import fortran_descriptors_in_gdb as descriptors  # type: ignore[import-not-found]
import gdb

_VARIABLE = "_pgdb_typed"
_MOST_NESTED = 20
_WITH_TARGET = (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF, gdb.TYPE_CODE_ARRAY)
_WITH_FIELDS = (gdb.TYPE_CODE_STRUCT, gdb.TYPE_CODE_UNION)


def with_names(word: str, expression: str) -> str:
    """Return a command such as ``whatis EXPR`` that GDB survives."""
    value = _value(expression)
    if value is None:
        return word + expression
    if descriptors.is_bare(value.type.strip_typedefs()):
        strings = descriptors.strings_of(value)
        if strings is not None:
            return f"echo type = {strings.type_name()}\\n"
    if not _has_unnamed(value.type):
        return word + expression
    place = value.address
    gdb.set_convenience_variable(_VARIABLE, value if place is None else place)
    stand_in = f"${_VARIABLE}" if place is None else f"(*${_VARIABLE})"
    return f"with language c -- {word}{stand_in}"


def address_of(expression: str) -> str:
    """Return an expression for an address whose type GDB can name."""
    value = _value(expression)
    if value is None or not _has_unnamed(value.type):
        return expression
    gdb.set_convenience_variable(_VARIABLE, value.cast(gdb.lookup_type("void").pointer()))
    return f"${_VARIABLE}"


def _value(expression: str) -> gdb.Value | None:
    try:
        return gdb.parse_and_eval(expression)
    except gdb.error:
        return None


def _has_unnamed(kind: gdb.Type, depth: int = 0, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether GDB would write the name of a structure that has none."""
    kind = kind.strip_typedefs()
    while kind.code in _WITH_TARGET:
        kind = kind.target().strip_typedefs()
    if kind.code not in _WITH_FIELDS or depth > _MOST_NESTED:
        return False
    name = kind.name or kind.tag
    if not name:
        return True
    if name in seen:
        return False
    parts = (field.type for field in kind.fields())
    return any(_has_unnamed(each, depth + 1, seen | {name}) for each in parts if each is not None)
